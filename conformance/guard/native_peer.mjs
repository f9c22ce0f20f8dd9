// The client of agent-native, which makes its own tokens: calls an agent, or an action, and says what came of it.
//
//     native_peer.mjs BASE_URL call|action EMAIL DOMAIN      secrets are in A2A_SECRET and PEER_ORG_SECRET

import { callAction, callAgent } from './node_modules/@agent-native/core/dist/a2a/client.js';

const say = console.log;
// The client tells its steps; the result alone goes to standard output.
console.log = console.error;
const [base, what, userEmail, orgDomain] = process.argv.slice(2);
// Loopback is refused unless the origin is listed.
process.env.AGENT_NATIVE_A2A_ALLOWED_ORIGINS = base;
const options = { userEmail, orgDomain, orgSecret: process.env.PEER_ORG_SECRET, pollIntervalMs: 100 };
try {
  const calling = what === 'call' ? callAgent(base, 'hello', options) : callAction(base, 'demo', { a: 1 }, options);
  say(JSON.stringify({ result: await calling }));
} catch (error) {
  say(JSON.stringify({ error: String(error.message) }));
}
