// An agent made with @a2a-js/sdk 0.3, on all three bindings.
//
//     js_0_3.mjs --http PORT --grpc PORT

import express from 'express';
import { Server, ServerCredentials } from '@grpc/grpc-js';
import {
  DefaultExecutionEventBusManager, DefaultPushNotificationSender, DefaultRequestHandler, InMemoryPushNotificationStore,
  InMemoryTaskStore,
} from '@a2a-js/sdk/server';
import { agentCardHandler, jsonRpcHandler, restHandler } from '@a2a-js/sdk/server/express';
import { A2AService, grpcService } from '@a2a-js/sdk/server/grpc';
import { Holds, options, play, SKILLS, userOf } from './behaviour.mjs';

const { http, grpc, base } = options();
const holds = new Holds();

const executor = {
  async execute({ userMessage, taskId, contextId, task }, bus) {
    const hold = holds.begin(taskId, contextId);
    const text = userMessage.parts.find((part) => part.kind === 'text')?.text ?? '';
    const answering = ['input-required', 'auth-required'].includes(task?.status?.state);
    const turn = { text, answering, task, taskId, contextId, userMessage, base, hold };
    for await (const event of play(turn)) bus.publish(event);
    bus.finished();
  },
  async cancelTask(taskId, bus) {
    bus.publish(holds.cancel(taskId));
  },
};

const agentCard = {
  protocolVersion: '0.3.0',
  name: 'JavaScript 0.3',
  description: 'An agent of the tests on the JavaScript SDK for 0.3',
  version: '1.0.0',
  url: `${base}/rpc`,
  preferredTransport: 'JSONRPC',
  additionalInterfaces: [
    { url: `${base}/rpc`, transport: 'JSONRPC' },
    { url: `${base}/rest`, transport: 'HTTP+JSON' },
    { url: `127.0.0.1:${grpc}`, transport: 'GRPC' },
  ],
  capabilities: { streaming: true, pushNotifications: true },
  supportsAuthenticatedExtendedCard: true,
  securitySchemes: { bearer: { type: 'http', scheme: 'bearer' } },
  defaultInputModes: ['text/plain', 'application/json', 'application/octet-stream'],
  defaultOutputModes: ['text/plain'],
  skills: SKILLS,
};
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
