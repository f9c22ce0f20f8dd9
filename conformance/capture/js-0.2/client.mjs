// The client of @a2a-js/sdk 0.2, put through every operation it has.
//
//     client.mjs BASE_URL HOOK_URL

import { randomUUID } from 'node:crypto';
import { A2AClient } from '@a2a-js/sdk/client';
import { drain, record } from './marks.mjs';

const [base, hook] = process.argv.slice(2);
const EXTENSION = 'https://ext.example/trace';
const at = (mark, act) => record('v0.2', mark, act);
const message = (text, more = {}) => ({
  kind: 'message', messageId: randomUUID(), role: 'user', parts: [{ kind: 'text', text }], ...more,
});
const say = async (text, more = {}, configuration = undefined) => (await client.sendMessage({
  message: message(text, more), ...(configuration && { configuration }),
})).result;
const config = {
  url: hook, token: 'opaque-token', authentication: { schemes: ['Bearer', 'Basic'], credentials: 'c2VjcmV0' },
};

let client;
await at({ request: 'card.request', reply: 'card' }, () => {
  client = new A2AClient(base);
  return client.getAgentCard();
});
const task = await at({ request: 'send.request', reply: 'send.reply-task' },
  () => say('task please', {}, { acceptedOutputModes: ['text/plain'], blocking: true, historyLength: 5 }));
await at({ request: 'send-message.request', reply: 'send.reply-message' }, () => say('message please'));
await at({ request: 'parts.request', reply: 'parts.reply' }, async () => client.sendMessage({
  message: message('parts please', {
    contextId: task.contextId,
    referenceTaskIds: [task.id],
    extensions: [EXTENSION],
    metadata: { [EXTENSION]: { span: 's-0' }, n: 1, half: 0.5 },
    parts: [
      { kind: 'text', text: 'parts please', metadata: { lang: 'en' } },
      { kind: 'file', file: { name: 'a.txt', mimeType: 'text/plain', bytes: 'aGVsbG8/Pj4+' } },
      { kind: 'file', file: { name: 'b.png', mimeType: 'image/png', uri: 'https://x.example/b' } },
      { kind: 'data', data: { n: 1, list: [1, 'two', null, true], deep: { empty: {} } } },
    ],
  }),
  metadata: { request: { traced: true } },
}));
let asked;
for (const [word, state] of Object.entries({
  fail: 'failed', reject: 'rejected', auth: 'auth-required', ask: 'input-required',
})) {
  asked = await at({ reply: `send.reply-${state}` }, () => say(word));
}
await at({ request: 'answer.request', reply: 'answer.reply' },
  () => say('answer Paris', { taskId: asked.id, contextId: asked.contextId }));
await at({ request: 'get.request', reply: 'get.reply' }, () => client.getTask({ id: task.id, historyLength: 1 }));
await at({ request: 'stream.request', reply: 'stream', events: '' },
  () => drain(client.sendMessageStream({ message: message('task please') })));
await at({ reply: 'stream-message', events: '' },
  () => drain(client.sendMessageStream({ message: message('message please') })));

// A task that is still open: this release waits for the end whatever it is told, so a stream starts it.
const holding = client.sendMessageStream({ message: message('hold on') });
const heldTask = (await holding.next()).value;
await at({ request: 'push-set.request', reply: 'push-set.reply' }, () => client.setTaskPushNotificationConfig({
  taskId: heldTask.id, pushNotificationConfig: config,
}));
await at({ request: 'push-get.request', reply: 'push-get.reply' },
  () => client.getTaskPushNotificationConfig({ id: heldTask.id }));
await at({ request: 'cancel.request', reply: 'cancel.reply' }, () => client.cancelTask({ id: heldTask.id }));

const slow = (await client.sendMessageStream({ message: message('slow please') }).next()).value;
await at({ request: 'resubscribe.request', reply: 'resubscribe', events: 'resubscribe.' },
  () => drain(client.resubscribeTask({ id: slow.id })));
await at({ request: 'push-inline.request', reply: 'push-inline.reply' },
  () => say('task please', {}, { acceptedOutputModes: ['text/plain'], pushNotificationConfig: config }));
process.exit(0);
