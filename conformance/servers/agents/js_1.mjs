// An agent made with @a2a-js/sdk 1.x: 1.0 over all three bindings.
//
//     js_1.mjs --http PORT --grpc PORT

import express from 'express';
import { Server, ServerCredentials } from '@grpc/grpc-js';
import {
  AgentCard, Message, Task, TaskArtifactUpdateEvent, TaskState, TaskStatus, TaskStatusUpdateEvent,
} from '@a2a-js/sdk';
import {
  AgentEvent, DefaultExecutionEventBusManager, DefaultPushNotificationSender, DefaultRequestHandler,
  InMemoryPushNotificationStore, InMemoryTaskStore,
} from '@a2a-js/sdk/server';
import { agentCardHandler, jsonRpcHandler, restHandler } from '@a2a-js/sdk/server/express';
import { A2AService, grpcService } from '@a2a-js/sdk/server/grpc';
import { Holds, options, play, SKILLS, userOf } from './behaviour.mjs';

const { http, grpc, base } = options();
const holds = new Holds();
const WAITING = [TaskState.TASK_STATE_INPUT_REQUIRED, TaskState.TASK_STATE_AUTH_REQUIRED];

// --- Events of 0.3 as 1.0 has them -----------------------------------------------------------------------------------

function part({ kind, text, data, file }) {
  if (kind === 'text') return { text };
  if (kind === 'data') return { data };
  const content = file.bytes === undefined ? { url: file.uri } : { raw: file.bytes };
  return { ...content, filename: file.name, mediaType: file.mimeType };
}

const message = ({ kind, parts, ...rest }) => ({ ...rest, role: 'ROLE_AGENT', parts: parts.map(part) });

const status = (old) => ({
  ...old,
  state: `TASK_STATE_${old.state.toUpperCase().replaceAll('-', '_')}`,
  message: old.message && message(old.message),
});

function event(old, userMessage, task) {
  const { kind, final, ...rest } = old;
  if (kind === 'known') {
    return AgentEvent.task({ ...task, status: TaskStatus.fromJSON(status(old.status)) });
  }
  if (kind === 'task') {
    const task = Task.fromJSON({ ...rest, status: status(old.status), history: [] });
    return AgentEvent.task({ ...task, history: [userMessage] });
  }
  if (kind === 'status-update') {
    return AgentEvent.statusUpdate(TaskStatusUpdateEvent.fromJSON({ ...rest, status: status(old.status) }));
  }
  if (kind === 'artifact-update') {
    const artifact = { ...old.artifact, parts: old.artifact.parts.map(part) };
    return AgentEvent.artifactUpdate(TaskArtifactUpdateEvent.fromJSON({ ...rest, artifact }));
  }
  return AgentEvent.message(Message.fromJSON(message(old)));
}

// --- The agent -------------------------------------------------------------------------------------------------------

const executor = {
  async execute({ userMessage, taskId, contextId, task }, bus) {
    const hold = holds.begin(taskId, contextId);
    const text = userMessage.parts.find((one) => one.content?.$case === 'text')?.content.value ?? '';
    const answering = WAITING.includes(task?.status?.state);
    const turn = { text, answering, task: { kind: 'known' }, taskId, contextId, userMessage, base, hold };
    for await (const old of play(turn)) bus.publish(event(old, userMessage, task));
    bus.finished();
  },
  async cancelTask(taskId, bus) {
    bus.publish(event(holds.cancel(taskId)));
  },
};

const agentCard = AgentCard.fromJSON({
  name: 'JavaScript 1',
  description: 'An agent of the tests on the JavaScript SDK',
  version: '1.0.0',
  supportedInterfaces: [
    { url: `${base}/rpc`, protocolBinding: 'JSONRPC', protocolVersion: '1.0' },
    { url: `${base}/rest`, protocolBinding: 'HTTP+JSON', protocolVersion: '1.0' },
    // As this SDK's own client wants it: an address, not a URL.
    { url: `127.0.0.1:${grpc}`, protocolBinding: 'GRPC', protocolVersion: '1.0' },
  ],
  capabilities: { streaming: true, pushNotifications: true, extendedAgentCard: true },
  securitySchemes: { bearer: { httpAuthSecurityScheme: { scheme: 'bearer' } } },
  defaultInputModes: ['text/plain', 'application/json', 'application/octet-stream'],
  defaultOutputModes: ['text/plain'],
  skills: SKILLS,
});
const store = new InMemoryPushNotificationStore();
const requestHandler = new DefaultRequestHandler(
  agentCard,
  new InMemoryTaskStore(),
  executor,
  new DefaultExecutionEventBusManager(),
  store,
  new DefaultPushNotificationSender(store),
  { ...agentCard, description: 'The extended card' },
);
const userBuilder = async (call) => userOf(call);

const app = express();
app.use('/.well-known/agent-card.json', agentCardHandler({ agentCardProvider: requestHandler }));
app.use('/rpc', jsonRpcHandler({ requestHandler, userBuilder }));
app.use('/rest', restHandler({ requestHandler, userBuilder }));
app.get('/files/paper.txt', (_, response) => response.type('text/plain').send('the text of the paper\n'));

const server = new Server();
server.addService(A2AService, grpcService({ requestHandler, userBuilder }));
server.bindAsync(`127.0.0.1:${grpc}`, ServerCredentials.createInsecure(), () => {
  app.listen(http, '127.0.0.1');
});
