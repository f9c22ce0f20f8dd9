// The signatures of the JavaScript SDK: verifies a card, or signs one. Reads one JSON document from standard input.
//
//     {"do": "verify", "card": …, "keys": [JWK, …]}                → {"ok": true} or {"ok": false, "why": "…"}
//     {"do": "sign", "card": …, "key": JWK, "header": {alg, kid}}   → {"card": …}

import { readFileSync } from 'node:fs';
import { generateAgentCardSignature, verifyAgentCardSignature } from '@a2a-js/sdk';
import { importJWK } from 'jose';

const asked = JSON.parse(readFileSync(0, 'utf8'));
// The card as it was received, not as `AgentCard`: of one that was parsed, the SDK forgets the security schemes when it
// makes the canonical form, because it parses it once more.
const { card } = asked;

if (asked.do === 'verify') {
  const find = async (kid) => {
    const key = asked.keys.find((candidate) => candidate.kid === kid);
    if (!key) throw new Error(`no key ${kid}`);
    return importJWK(key, key.alg);
  };
  try {
    await verifyAgentCardSignature(find)(card);
    console.log(JSON.stringify({ ok: true }));
  } catch (error) {
    console.log(JSON.stringify({ ok: false, why: String(error) }));
  }
} else {
  const key = await importJWK(asked.key, asked.header.alg);
  const signed = await generateAgentCardSignature(key, { typ: 'JOSE', ...asked.header })(card);
  console.log(JSON.stringify({ card: signed }));
}
