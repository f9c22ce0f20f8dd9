// The client of @xpr-agents/sdk, put through every operation it has, unsigned and signed.
//
//     client.mjs BASE_URL HOOK_URL

import { A2AClient } from '@xpr-agents/sdk';
import { record } from './marks.mjs';

const [base] = process.argv.slice(2);
const at = (mark, act) => record('xpr', mark, act);
// The development key every chain of this family ships with; `NOTES.md` has its public half.
const signingKey = '5KQwrPbwdL6PhXujxW37FSSQZ1JiwsST4cqQzDeyXtP79zkvwD3';
const message = (text) => ({ role: 'user', parts: [{ type: 'text', text }] });

const nobody = new A2AClient(base);
await at({ request: 'card.request' }, () => nobody.getAgentCard());
await at({ request: 'send-anonymous.request' }, () => nobody.sendMessage(message('hello')));

const unsigned = new A2AClient(`${base}/`, { callerAccount: 'alice' });
await at({ request: 'send.request' }, () => unsigned.sendMessage(message('hello')));
await at({ request: 'get.request' }, () => unsigned.getTask('task-1'));
await at({ request: 'cancel.request' }, () => unsigned.cancelTask('task-1'));

const signed = new A2AClient(base, { callerAccount: 'alice', signingKey });
await at({ request: 'send-signed.request', head: true }, () => signed.sendMessage(message('Grüße 世界 🌍')));
await at({ request: 'get-signed.request', head: true }, () => signed.getTask('task-1'));
await at({ request: 'cancel-signed.request', head: true }, () => signed.cancelTask('task-1'));
await at({ request: 'send-job.request', head: true }, () => signed.sendMessage(message('about the job'), {
  taskId: 'task-7', contextId: 'c-1', jobId: 42, metadata: { note: 'x' },
}));
await at({ request: 'parts.request', head: true }, () => signed.sendMessage({
  role: 'user',
  parts: [
    { type: 'text', text: 'one of each' },
    { type: 'file', file: { name: 'a.txt', mimeType: 'text/plain', bytes: 'aGVsbG8/Pj4+' } },
    { type: 'file', file: { mimeType: 'image/png', uri: 'https://x.example/b' } },
    { type: 'data', data: { n: 1, list: [1, 'two', null, true] } },
  ],
}));
