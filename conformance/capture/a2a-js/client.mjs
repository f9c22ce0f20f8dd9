// The client of a2a-js 0.2.0 (protocol 0.1), put through every operation it has.
//
//     client.mjs BASE_URL HOOK_URL

import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { A2ACardResolver, A2AClient } from 'a2a-js';
import { drain, record } from './marks.mjs';

const [base, hook] = process.argv.slice(2);
const at = (mark, act) => record('v0.1', mark, act);
const saying = (text, more = {}) => ({
  id: randomUUID(), sessionId: 'session-1', message: { role: 'user', parts: [{ type: 'text', text }] }, ...more,
});

await at({ request: 'card.request' }, () => new A2ACardResolver(base).getAgentCard());
const client = new A2AClient(`${base}/rpc`);
const task = await at({ request: 'send.request' }, () => client.sendTask(saying('task please', { historyLength: 2 })));
await at({ request: 'stream.request' }, () => drain(client.sendTaskSubscribe(saying('task please'))));
await at({ request: 'get.request' }, () => client.getTask({ id: task.id, historyLength: 1 }));
const held = await client.sendTask(saying('hold on'));
const pushNotificationConfig = { url: hook, token: 'opaque-token', authentication: { schemes: ['bearer'] } };
// These two have the names of 0.2 already, and a 0.1 server does not know them.
await at({ request: 'push-set.request', may_fail: true },
  () => client.setTaskPushNotificationConfig({ id: held.id, pushNotificationConfig }));
await at({ request: 'push-get.request', may_fail: true },
  () => client.getTaskPushNotificationConfig({ id: held.id }));
await at({ request: 'cancel.request' }, () => client.cancelTask({ id: held.id }));
const slow = saying('slow please');
const reading = drain(client.sendTaskSubscribe(slow));
await sleep(500);
await at({ request: 'resubscribe.request', reply: 'resubscribe', events: 'resubscribe.' },
  () => drain(client.resubscribeTask({ id: slow.id, historyLength: 1 })));
await reading;
