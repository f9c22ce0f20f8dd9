// The client of the XPR agents SDK, with a key: sends, reads, and says what came of it, in one line of JSON.
//
//     xpr_peer.mjs BASE_URL ACCOUNT        the key is in PEER_KEY

import { A2AClient } from '@xpr-agents/sdk';

const [base, account] = process.argv.slice(2);
const client = new A2AClient(base, { callerAccount: account, signingKey: process.env.PEER_KEY });
try {
  const sent = await client.sendMessage({ role: 'user', parts: [{ type: 'text', text: 'hello' }] }, { jobId: 42 });
  const read = await client.getTask(sent.id);
  const { owner, metadata, status } = sent;
  console.log(JSON.stringify({ state: status.state, owner, metadata, read: read.id === sent.id }));
} catch (error) {
  console.log(JSON.stringify({ code: error.code, message: error.message }));
}
