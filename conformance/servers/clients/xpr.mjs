// Puts the XPR server to the test with the client of the XPR agents SDK.
//
//     xpr.mjs BASE_URL HOOK_URL [--signed]

import { A2AClient } from '@xpr-agents/sdk';
import { check } from './checking.mjs';

// A key everybody knows: development chains of this family are delivered with it.
const signingKey = '5KQwrPbwdL6PhXujxW37FSSQZ1JiwsST4cqQzDeyXtP79zkvwD3';
const [base] = process.argv.slice(2);
const signed = process.argv.includes('--signed');
const client = new A2AClient(base, { callerAccount: 'alice', ...(signed && { signingKey }) });
const message = (text) => ({ role: 'user', parts: [{ type: 'text', text }] });
const tell = (...given) => check('JSONRPC', ...given);
const code = (promise) => promise.then(() => 'an answer', (error) => error.code);

tell('card', (await client.getAgentCard())['xpr:account'], 'testagent');
const task = await client.sendMessage(message('echo hello there'), { contextId: 'c-1', jobId: 42 });
const { text } = task.artifacts[0].parts[0];
// Without a signature the SDK does not send the header with the account either.
const owner = signed ? 'alice' : 'anonymous';
tell('echo', [task.status.state, task.owner, task.contextId, text], ['completed', owner, 'c-1', 'hello there']);
tell('get', (await client.getTask(task.id)).id, task.id);
tell('get-unknown', await code(client.getTask('nothing')), -32001);
tell('cancel-settled', await code(client.cancelTask(task.id)), -32002);
tell('fail', await code(client.sendMessage(message('fail'))), -32603);
tell('no-parts', await code(client.sendMessage({ role: 'user' })), -32602);
if (signed) {
  tell('unsigned', await code(new A2AClient(base, { callerAccount: 'alice' }).sendMessage(message('echo'))), -32000);
  const mallory = new A2AClient(base, { callerAccount: 'mallory', signingKey });
  tell('other-account', await code(mallory.sendMessage(message('echo'))), -32000);
}
process.exit(0);
