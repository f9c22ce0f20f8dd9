// The client of @a2a-js/sdk 1.x, put through every operation it has, on all three bindings.
//
//     client.mjs BASE_URL HOOK_URL
//
// What it speaks depends on the card it meets: 0.3 to a server that shows a 0.3 card, else 1.0. `CAPTURE_DIALECT` says
// which is expected.

import { randomUUID } from 'node:crypto';
import {
  ListTaskPushNotificationConfigsRequest, ListTasksRequest, SendMessageRequest, TaskPushNotificationConfig,
} from '@a2a-js/sdk';
import {
  ClientFactory, DefaultAgentCardResolver, JsonRpcTransportFactory, RestTransportFactory, ServiceParameters,
  withA2AExtensions,
} from '@a2a-js/sdk/client';
import { GrpcTransportFactory } from '@a2a-js/sdk/client/grpc';
import { drain, record } from './marks.mjs';

const [base, hook] = process.argv.slice(2);
const SPOKEN = process.env.CAPTURE_DIALECT;
const EXTENSION = 'https://ext.example/trace';
const legacyCompat = { enabled: true };
const BINDINGS = [
  [`${SPOKEN}-jsonrpc`, new JsonRpcTransportFactory({ legacyCompat }), 'JSONRPC'],
  [`${SPOKEN}-rest`, new RestTransportFactory({ legacyCompat }), 'HTTP+JSON'],
  [`${SPOKEN}-grpc`, new GrpcTransportFactory({ legacyCompat }), 'GRPC'],
];

const request = (text, { configuration, metadata, ...more } = {}) => SendMessageRequest.fromJSON({
  message: { messageId: randomUUID(), role: 'ROLE_USER', parts: [{ text }], ...more },
  ...(configuration && { configuration }),
  ...(metadata && { metadata }),
});
const config = (id, taskId) => TaskPushNotificationConfig.fromJSON({
  id, taskId, url: hook, token: 'opaque-token', authentication: { scheme: 'Bearer', credentials: 'c2VjcmV0' },
});

for (const [dialect, transport, name] of BINDINGS) {
  const cardResolver = new DefaultAgentCardResolver({ legacyCompat });
  const factory = new ClientFactory({ transports: [transport], preferredTransports: [name], cardResolver });
  const at = (mark, act) => record(dialect, mark, act);
  const client = name === 'JSONRPC'
    ? await at({ request: 'card.request', reply: 'card' }, () => factory.createFromUrl(base))
    : await factory.createFromUrl(base);

  const task = await at({ request: 'send.request', reply: 'send.reply-task' },
    () => client.sendMessage(request('task please')));
  await at({ request: 'send-message.request', reply: 'send.reply-message' }, () => client.sendMessage(
    request('message please', { configuration: { acceptedOutputModes: ['text/plain'], historyLength: 5 } }),
  ));
  const traced = { serviceParameters: ServiceParameters.create(withA2AExtensions([EXTENSION])) };
  const parted = request('parts please', {
    contextId: task.contextId,
    referenceTaskIds: [task.id],
    extensions: [EXTENSION],
    metadata: { request: { traced: true } },
    parts: [
      { text: 'parts please', metadata: { lang: 'en' } },
      { raw: 'aGVsbG8/Pj4+', filename: 'a.txt', mediaType: 'text/plain' },
      { url: 'https://x.example/b', filename: 'b.png', mediaType: 'image/png' },
      { data: { n: 1, list: [1, 'two', true], deep: { empty: {} } } },
      { text: '# named', filename: 'n.md', mediaType: 'text/markdown' },
    ],
  });
  parted.message.metadata = { [EXTENSION]: { span: 's-0' }, n: 1, half: 0.5 };
  await at({ request: 'parts.request', reply: 'parts.reply' }, () => client.sendMessage(parted, traced));
  const odd = ['a string', 42, true, ['an', 'array'], { an: 'object' }].map((data) => ({ data }));
  await at({ request: 'odd-data.request', reply: 'odd-data.reply', may_fail: true },
    () => client.sendMessage(request('', { parts: [{ text: 'task' }, ...odd] })));
  let asked;
  for (const [word, state] of Object.entries({
    fail: 'failed', reject: 'rejected', auth: 'auth-required', ask: 'input-required',
  })) {
    asked = await at({ reply: `send.reply-${state}` }, () => client.sendMessage(request(word)));
  }
  await at({ request: 'answer.request', reply: 'answer.reply' }, () => client.sendMessage(
    request('answer Paris', { taskId: asked.id, contextId: asked.contextId }),
  ));
  await at({ request: 'get.request', reply: 'get.reply' },
    () => client.getTask({ tenant: '', id: task.id, historyLength: 1 }));
  await at({ request: 'get-plain.request', reply: 'get-plain.reply' },
    () => client.getTask({ tenant: '', id: task.id, historyLength: undefined }));
  await at({ request: 'stream.request', reply: 'stream', events: '' },
    () => drain(client.sendMessageStream(request('task please'))));
  await at({ reply: 'stream-message', events: '' },
    () => drain(client.sendMessageStream(request('message please'))));

  const later = { configuration: { returnImmediately: true } };
  const heldTask = await at({ request: 'send-nonblocking.request', reply: 'send-nonblocking.reply' },
    () => client.sendMessage(request('hold on', later)));
  const named = { tenant: '', taskId: heldTask.id, id: 'hook-1' };
  await at({ request: 'push-set.request', reply: 'push-set.reply', may_fail: true },
    () => client.createTaskPushNotificationConfig(config('hook-1', heldTask.id)));
  await at({ request: 'push-get.request', reply: 'push-get.reply', may_fail: true },
    () => client.getTaskPushNotificationConfig(named));
  await at({ request: 'push-list.request', reply: 'push-list.reply', may_fail: true },
    () => client.listTaskPushNotificationConfig(
      ListTaskPushNotificationConfigsRequest.fromJSON({ taskId: heldTask.id }),
    ));
  await at({ request: 'push-delete.request', reply: 'push-delete.reply', may_fail: true },
    () => client.deleteTaskPushNotificationConfig(named));
  await at({ request: 'cancel.request', reply: 'cancel.reply' },
    () => client.cancelTask({ tenant: '', id: heldTask.id, metadata: undefined }));
  await at({ request: 'list.request', reply: 'list.reply', may_fail: true },
    () => client.listTasks(ListTasksRequest.fromJSON({ contextId: task.contextId, pageSize: 2, historyLength: 0 })));

  const slow = await client.sendMessage(request('slow please', later));
  await at({ request: 'resubscribe.request', reply: 'resubscribe', events: 'resubscribe.' },
    () => drain(client.resubscribeTask({ tenant: '', id: slow.id })));
  const inline = request('task please', { configuration: { historyLength: 2 } });
  inline.configuration.taskPushNotificationConfig = config('hook-2', '');
  await at({ request: 'push-inline.request', reply: 'push-inline.reply', hook: 'push-payload' },
    () => client.sendMessage(inline));
  await at({ request: 'extended-card.request', reply: 'extended-card' }, () => client.getAgentCard());
}
process.exit(0);
