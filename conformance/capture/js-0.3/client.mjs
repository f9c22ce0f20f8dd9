// The client of @a2a-js/sdk 0.3, put through every operation it has, on all three bindings.
//
//     client.mjs BASE_URL HOOK_URL

import { randomUUID } from 'node:crypto';
import { ClientFactory, JsonRpcTransportFactory, RestTransportFactory } from '@a2a-js/sdk/client';
import { GrpcTransportFactory } from '@a2a-js/sdk/client/grpc';
import { drain, record } from './marks.mjs';

const [base, hook] = process.argv.slice(2);
const EXTENSION = 'https://ext.example/trace';
const BINDINGS = [
  ['v0.3-jsonrpc', new JsonRpcTransportFactory(), 'JSONRPC'],
  ['v0.3-rest', new RestTransportFactory(), 'HTTP+JSON'],
  ['v0.3-grpc', new GrpcTransportFactory(), 'GRPC'],
];

const message = (text, more = {}) => ({
  kind: 'message', messageId: randomUUID(), role: 'user', parts: [{ kind: 'text', text }], ...more,
});
const config = (id) => ({
  id, url: hook, token: 'opaque-token', authentication: { schemes: ['Bearer', 'Basic'], credentials: 'c2VjcmV0' },
});

for (const [dialect, transport, name] of BINDINGS) {
  const factory = new ClientFactory({ transports: [transport], preferredTransports: [name] });
  const at = (mark, act) => record(dialect, mark, act);
  const client = name === 'JSONRPC'
    ? await at({ request: 'card.request', reply: 'card' }, () => factory.createFromUrl(base))
    : await factory.createFromUrl(base);

  const task = await at({ request: 'send.request', reply: 'send.reply-task' },
    () => client.sendMessage({ message: message('task please') }));
  await at({ request: 'send-message.request', reply: 'send.reply-message' }, () => client.sendMessage({
    message: message('message please'),
    configuration: { blocking: true, acceptedOutputModes: ['text/plain'], historyLength: 5 },
  }));
  await at({ request: 'parts.request', reply: 'parts.reply' }, () => client.sendMessage({
    message: message('parts please', {
      contextId: task.contextId,
      referenceTaskIds: [task.id],
      extensions: [EXTENSION],
      metadata: { [EXTENSION]: { span: 's-0' }, n: 1, half: 0.5 },
      parts: [
        { kind: 'text', text: 'parts please', metadata: { lang: 'en' } },
        { kind: 'file', file: { name: 'a.txt', mimeType: 'text/plain', bytes: 'aGVsbG8/Pj4+' } },
        { kind: 'file', file: { name: 'b.png', mimeType: 'image/png', uri: 'https://x.example/b' } },
        { kind: 'data', data: { n: 1, list: [1, 'two', true], deep: { empty: {} } } },
      ],
    }),
    metadata: { request: { traced: true } },
  }, { serviceParameters: { 'X-A2A-Extensions': EXTENSION } }));
  // Over gRPC this SDK cannot write a null.
  await at({ request: 'null-data.request', reply: 'null-data.reply', may_fail: name === 'GRPC' },
    () => client.sendMessage({
      message: message('null-data', {
        parts: [{ kind: 'text', text: 'null-data' }, { kind: 'data', data: { nothing: null, list: [null] } }],
      }),
    }));
  let asked;
  for (const [word, state] of Object.entries({
    fail: 'failed', reject: 'rejected', auth: 'auth-required', ask: 'input-required',
  })) {
    asked = await at({ reply: `send.reply-${state}` }, () => client.sendMessage({ message: message(word) }));
  }
  await at({ request: 'answer.request', reply: 'answer.reply' }, () => client.sendMessage({
    message: message('answer Paris', { taskId: asked.id, contextId: asked.contextId }),
  }));
  await at({ request: 'get.request', reply: 'get.reply' }, () => client.getTask({ id: task.id, historyLength: 1 }));
  await at({ request: 'get-plain.request', reply: 'get-plain.reply' }, () => client.getTask({ id: task.id }));

  await at({ request: 'stream.request', reply: 'stream', events: '' },
    () => drain(client.sendMessageStream({ message: message('task please') })));
  await at({ reply: 'stream-message', events: '' },
    () => drain(client.sendMessageStream({ message: message('message please') })));

  const later = { configuration: { blocking: false } };
  const heldTask = await at({ request: 'send-nonblocking.request', reply: 'send-nonblocking.reply' },
    () => client.sendMessage({ message: message('hold on'), ...later }));
  // Over REST this client sends the bare config, and the server of the same release wants it wrapped.
  const wanted = { request: 'push-set.request', reply: 'push-set.reply', may_fail: name === 'HTTP+JSON' };
  await at(wanted, () => client.setTaskPushNotificationConfig({
    taskId: heldTask.id, pushNotificationConfig: config('hook-1'),
  }));
  if (name === 'HTTP+JSON') {
    await fetch(`${base}/rest/v1/tasks/${heldTask.id}/pushNotificationConfigs`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({
        parent: `tasks/${heldTask.id}`,
        configId: 'hook-1',
        config: {
          name: `tasks/${heldTask.id}/pushNotificationConfigs/hook-1`,
          pushNotificationConfig: config('hook-1'),
        },
      }),
    });
  }
  await at({ request: 'push-get.request', reply: 'push-get.reply' }, () => client.getTaskPushNotificationConfig({
    id: heldTask.id, pushNotificationConfigId: 'hook-1',
  }));
  await at({ request: 'push-list.request', reply: 'push-list.reply' },
    () => client.listTaskPushNotificationConfig({ id: heldTask.id }));
  await at({ request: 'push-delete.request', reply: 'push-delete.reply' },
    () => client.deleteTaskPushNotificationConfig({ id: heldTask.id, pushNotificationConfigId: 'hook-1' }));
  await at({ request: 'cancel.request', reply: 'cancel.reply' }, () => client.cancelTask({ id: heldTask.id }));

  const slow = await client.sendMessage({ message: message('slow please'), ...later });
  await at({ request: 'resubscribe.request', reply: 'resubscribe', events: 'resubscribe.' },
    () => drain(client.resubscribeTask({ id: slow.id })));
  await at({ request: 'push-inline.request', reply: 'push-inline.reply', hook: 'push-payload' },
    () => client.sendMessage({
      message: message('task please'),
      configuration: { pushNotificationConfig: config('hook-2'), historyLength: 2, blocking: true },
    }));
  await at({ request: 'extended-card.request', reply: 'extended-card' }, () => client.getAgentCard());
}
process.exit(0);
