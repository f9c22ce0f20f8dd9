// The client of agent-native, put through every operation it has, with each kind of credential.
//
//     client.mjs BASE_URL HOOK_URL

import { drain, record } from './marks.mjs';

const [base] = process.argv.slice(2);
// It refuses to talk to loopback unless told.
process.env.AGENT_NATIVE_A2A_ALLOWED_ORIGINS = base;
const { A2AClient, callAction, callAgent, signA2AToken } = await import('@agent-native/core/a2a');

const at = (mark, act) => record('agent-native', { path: 'a2a$', ...mark }, act);
const message = (text, ...more) => ({ role: 'user', parts: [{ type: 'text', text }, ...more] });

await at({ request: 'card.request', reply: 'card', path: 'card' }, () => new A2AClient(base).getAgentCard());

const client = new A2AClient(base, 'static-key');
const task = await at({ request: 'send.request', reply: 'send.reply-task' }, () => client.send(message('task please')));
await at({ request: 'parts.request', reply: 'parts.reply' }, () => client.send(
  message(
    'parts please',
    { type: 'file', file: { name: 'a.txt', mimeType: 'text/plain', bytes: 'aGVsbG8/Pj4+' } },
    { type: 'file', file: { uri: 'https://x.example/b' } },
    { type: 'data', data: { n: 1, list: [1, 'two', null, true] } },
  ),
  { contextId: 'c-1', metadata: { note: 'x' }, approvedActions: [{ tool: 't', input: { a: 1 } }] },
));
await at({ request: 'ask.request', reply: 'send.reply-input-required' }, () => client.send(message('ask')));
await at({ request: 'get.request', reply: 'get.reply' }, () => client.getTask(task.id));
await at({ request: 'stream.request', reply: 'stream', events: '' }, () => drain(client.stream(message('stream'))));
await at({ request: 'stream-plain.request', reply: 'stream-plain', events: 'plain.' },
  () => drain(client.stream(message('task'), { contextId: 'c-1', metadata: { note: 'x' } })));

const later = await at({ request: 'send-async.request', reply: 'send-async.reply' },
  () => client.send(message('slow please'), { async: true, contextId: 'c-2', metadata: { note: 'x' } }));
await at({ reply: 'get.reply-processing' }, () => client.getTask(later.id));
await at({ reply: 'get.reply-async-completed' }, async () => {
  let got;
  do {
    await new Promise((resolve) => setTimeout(resolve, 1900));
    got = await client.getTask(later.id);
  } while (got.status.state !== 'completed');
});
// The client has no public call for this.
await at({ request: 'cancel.request', reply: 'cancel.reply' }, () => client.rpc('tasks/cancel', { id: later.id }));
// What the server posts to itself to have an async task run.
await at({ request: 'process-task.request', reply: 'process-task.reply', head: true, path: '_process-task' },
  async () => {
    await client.send(message('task please'), { async: true });
    await new Promise((resolve) => setTimeout(resolve, 600));
  });

process.env.A2A_SECRET = 'capture-secret';
await at({ request: 'call-agent.request', reply: 'call-agent.reply', head: true }, () => callAgent(base, 'task please', {
  userEmail: 'alice@org.example', orgDomain: 'org.example', contextId: 'c-3',
}));
await at({ request: 'call-agent-blocking.request', reply: 'call-agent-blocking.reply', head: true }, () => callAgent(
  base, 'task please', { userEmail: 'alice@org.example', async: false },
));
const token = await signA2AToken('alice@org.example', undefined, undefined, { audience: base });
await at({ request: 'card-token.request', reply: 'card-token', path: 'card' },
  () => new A2AClient(base).getAgentCard({ token }));
await at({ request: 'invoke.request', reply: 'invoke.reply', head: true },
  () => new A2AClient(base, token).invokeAction('read', { key: 'k' }));
await at({ request: 'call-action.request', reply: 'call-action.reply', head: true },
  () => callAction(base, 'read', { key: 'k' }, { userEmail: 'alice@org.example' }));
process.exit(0);
