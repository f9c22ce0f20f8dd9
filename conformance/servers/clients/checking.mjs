// What the clients here share: a line for each check, and a look at what the hook got.

import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';

export function check(binding, name, got, want) {
  const ok = isDeepStrictEqual(JSON.parse(JSON.stringify(got ?? null)), want);
  console.log([ok ? 'ok' : 'FAIL', binding, name, ok ? '' : `got ${JSON.stringify(got)}`].join('\t'));
}

export async function deliveries(hook, token) {
  for (let tries = 0; tries < 40; tries += 1) {
    const seen = (await (await fetch(hook)).json()).filter((one) => one.token === token);
    if (seen.length) return seen;
    await sleep(100);
  }
  return [];
}

export async function drain(stream) {
  const events = [];
  for await (const event of stream) events.push(event);
  return events;
}
