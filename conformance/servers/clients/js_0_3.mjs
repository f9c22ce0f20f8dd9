// Puts an agent of `agents/behaviour.mjs` to the test with the client of @a2a-js/sdk 0.3.
//
//     js_0_3.mjs BASE_URL HOOK_URL

import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { ClientFactory, JsonRpcTransportFactory, RestTransportFactory } from '@a2a-js/sdk/client';
import { GrpcTransportFactory } from '@a2a-js/sdk/client/grpc';
import { check, deliveries, drain } from './checking.mjs';

const [base, hook] = process.argv.slice(2);
const BINDINGS = [
  ['JSONRPC', new JsonRpcTransportFactory()],
  ['HTTP+JSON', new RestTransportFactory()],
  ['GRPC', new GrpcTransportFactory()],
];
const message = (text, more = {}) => ({
  kind: 'message', messageId: randomUUID(), role: 'user', parts: [{ kind: 'text', text }], ...more,
});
const texts = (task) => task.artifacts.flatMap((artifact) => artifact.parts.map((part) => part.text));

for (const [binding, transport] of BINDINGS) {
  const factory = new ClientFactory({ transports: [transport], preferredTransports: [binding] });
  const client = await factory.createFromUrl(base);
  const send = (text, configuration, more) => client.sendMessage({ message: message(text, more), configuration });

  const task = await send('echo hello there');
  check(binding, 'echo', [task.status.state, ...texts(task)], ['completed', 'hello there']);
  check(binding, 'message', (await send('message')).parts[0].text, 'a direct message');
  const stream = await drain(client.sendMessageStream({ message: message('slow 3') }));
  const chunks = stream.filter((event) => event.kind === 'artifact-update')
    .map((event) => event.artifact.parts[0].text);
  check(binding, 'slow', chunks, ['chunk 1 ', 'chunk 2 ', 'chunk 3 ']);
  check(binding, 'slow-ends', stream.at(-1).status.state, 'completed');
  const asked = await send('ask');
  check(binding, 'ask', asked.status.state, 'input-required');
  const done = await send('Paris', undefined, { taskId: asked.id, contextId: asked.contextId });
  check(binding, 'answer', [done.status.state, ...texts(done)], ['completed', 'Paris']);
  const states = [];
  for (const word of ['fail', 'reject', 'auth']) states.push((await send(word)).status.state);
  check(binding, 'states', states, ['failed', 'rejected', 'auth-required']);
  const [artifact] = (await send('files')).artifacts;
  check(binding, 'files', artifact.parts.map((part) => part.kind), ['text', 'file', 'file', 'data']);
  const held = await send('hold', { blocking: false });
  await sleep(200);
  const joined = drain(client.resubscribeTask({ id: held.id }));
  await sleep(300);
  check(binding, 'cancel', (await client.cancelTask({ id: held.id })).status.state, 'canceled');
  check(binding, 'resubscribe', (await joined).at(-1).status.state, 'canceled');
  check(binding, 'get', (await client.getTask({ id: task.id })).id, task.id);
  const token = randomUUID();
  await send('echo pushed', { pushNotificationConfig: { url: hook, token }, blocking: true });
  check(binding, 'push', (await deliveries(hook, token)).length > 0, true);
  const known = { serviceParameters: { Authorization: 'Bearer test-token' } };
  check(binding, 'extended', (await client.getAgentCard(known)).description, 'The extended card');
}
process.exit(0);
