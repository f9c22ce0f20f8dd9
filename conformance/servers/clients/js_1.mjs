// Puts an agent of `agents/behaviour.mjs` to the test with the client of @a2a-js/sdk 1.x.
//
//     js_1.mjs BASE_URL HOOK_URL

import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { ListTasksRequest, SendMessageRequest, TaskState } from '@a2a-js/sdk';
import {
  ClientFactory, DefaultAgentCardResolver, JsonRpcTransportFactory, RestTransportFactory,
} from '@a2a-js/sdk/client';
import { GrpcTransportFactory } from '@a2a-js/sdk/client/grpc';
import { check, deliveries, drain } from './checking.mjs';

const [base, hook] = process.argv.slice(2);
const BINDINGS = [
  ['JSONRPC', new JsonRpcTransportFactory()],
  ['HTTP+JSON', new RestTransportFactory()],
  ['GRPC', new GrpcTransportFactory()],
];
const request = (text, configuration, more = {}) => SendMessageRequest.fromJSON({
  message: { messageId: randomUUID(), role: 'ROLE_USER', parts: [{ text }], ...more }, configuration,
});
const state = (task) => TaskState[task.status.state].replace('TASK_STATE_', '');
const texts = (task) => task.artifacts.flatMap((artifact) => artifact.parts.map((part) => part.content.value));
const last = (events) => events.at(-1).payload.value;

for (const [binding, transport] of BINDINGS) {
  const cardResolver = new DefaultAgentCardResolver();
  const factory = new ClientFactory({ transports: [transport], preferredTransports: [binding], cardResolver });
  const client = await factory.createFromUrl(base);

  const task = await client.sendMessage(request('echo hello there'));
  check(binding, 'echo', [state(task), ...texts(task)], ['COMPLETED', 'hello there']);
  const direct = await client.sendMessage(request('message'));
  check(binding, 'message', direct.parts[0].content.value, 'a direct message');
  const stream = await drain(client.sendMessageStream(request('slow 3')));
  const chunks = stream.filter((event) => event.payload.$case === 'artifactUpdate')
    .map((event) => event.payload.value.artifact.parts[0].content.value);
  check(binding, 'slow', chunks, ['chunk 1 ', 'chunk 2 ', 'chunk 3 ']);
  check(binding, 'slow-ends', state(last(stream)), 'COMPLETED');
  const asked = await client.sendMessage(request('ask'));
  check(binding, 'ask', state(asked), 'INPUT_REQUIRED');
  const done = await client.sendMessage(request('Paris', {}, { taskId: asked.id, contextId: asked.contextId }));
  check(binding, 'answer', [state(done), ...texts(done)], ['COMPLETED', 'Paris']);
  const states = [];
  for (const word of ['fail', 'reject', 'auth']) states.push(state(await client.sendMessage(request(word))));
  check(binding, 'states', states, ['FAILED', 'REJECTED', 'AUTH_REQUIRED']);
  const files = await client.sendMessage(request('files'));
  const kinds = files.artifacts[0].parts.map((part) => part.content.$case);
  check(binding, 'files', kinds, ['text', 'raw', 'url', 'data']);
  const held = await client.sendMessage(request('hold', { returnImmediately: true }));
  await sleep(200);
  const joined = drain(client.resubscribeTask({ tenant: '', id: held.id }));
  await sleep(300);
  check(binding, 'cancel', state(await client.cancelTask({ tenant: '', id: held.id })), 'CANCELED');
  check(binding, 'subscribe', state(last(await joined)), 'CANCELED');
  check(binding, 'get', (await client.getTask({ tenant: '', id: task.id })).id, task.id);
  const listed = await client.listTasks(ListTasksRequest.fromJSON({ contextId: task.contextId }));
  check(binding, 'list', listed.tasks.map((one) => one.id), [task.id]);
  const token = randomUUID();
  await client.sendMessage(request('echo pushed', { taskPushNotificationConfig: { url: hook, token } }));
  check(binding, 'push', (await deliveries(hook, token)).length > 0, true);
  const known = { serviceParameters: { Authorization: 'Bearer test-token' } };
  check(binding, 'extended', (await client.getAgentCard(known)).description, 'The extended card');
}
process.exit(0);
