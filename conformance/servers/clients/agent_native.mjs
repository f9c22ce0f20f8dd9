// Puts the agent-native server to the test with its own client.
//
//     agent_native.mjs BASE_URL HOOK_URL [--secret SECRET] [--key KEY]

import { check, drain } from './checking.mjs';

const [base] = process.argv.slice(2);
const value = (name) => process.argv.includes(name) ? process.argv[process.argv.indexOf(name) + 1] : undefined;
// It refuses to talk to loopback unless told.
process.env.AGENT_NATIVE_A2A_ALLOWED_ORIGINS = base;
if (value('--secret')) process.env.A2A_SECRET = value('--secret');
const { A2AClient, callAgent, signA2AToken } = await import('@agent-native/core/a2a');

const message = (text) => ({ role: 'user', parts: [{ type: 'text', text }] });
const said = (task) => task.status.message.parts.map((part) => part.text);
const tell = (...given) => check('JSONRPC', ...given);
const who = { userEmail: 'alice@org.example', orgDomain: 'org.example' };
const token = value('--secret') ? await signA2AToken('alice@org.example', 'org.example') : value('--key');
const client = new A2AClient(base, token);

const task = await client.send(message('echo hello there'));
tell('echo', [task.status.state, ...said(task)], ['completed', 'hello there']);
tell('get', (await client.getTask(task.id)).status.state, 'completed');
tell('ask', (await client.send(message('ask'))).status.state, 'input-required');
const stream = await drain(client.stream(message('slow 3')));
tell('slow', [...new Set(stream.flatMap(said))], ['chunk 1', 'chunk 2', 'chunk 3']);
tell('call-agent', await callAgent(base, 'echo waited for', { ...who, apiKey: token }), 'waited for');
tell('call-agent-blocking', await callAgent(base, 'echo at once', { ...who, apiKey: token, async: false }), 'at once');
if (token) {
  const refusal = await new A2AClient(base).send(message('echo x')).catch((error) => /401/.test(error.message));
  tell('refused-without', refusal, true);
}
process.exit(0);
