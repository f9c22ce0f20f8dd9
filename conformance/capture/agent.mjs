// The agent behind every JavaScript server here: plays `agent.json`, in 0.3 objects.

import { readFileSync } from 'node:fs';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

const SCRIPT = JSON.parse(readFileSync(new URL('./agent.json', import.meta.url), 'utf8'));
const FINAL = ['completed', 'failed', 'rejected', 'canceled', 'input-required'];
const now = () => new Date().toISOString();

/** The events of one turn, with the pauses between them. `held` is waited for where the script says so. */
export async function* play(text, taskId, contextId, userMessage, held) {
  const message = (said) => said && {
    kind: 'message', messageId: randomUUID(), role: 'agent', parts: [{ kind: 'text', text: said }], taskId, contextId,
  };
  for (const [step, ...rest] of SCRIPT[text.split(' ')[0]]) {
    if (step === 'sleep') await sleep(rest[0] * 1000);
    else if (step === 'hold') await held;
    else if (step === 'crash') throw new Error(rest[0]);
    else if (step === 'task') {
      const status = { state: rest[0], timestamp: now() };
      yield { kind: 'task', id: taskId, contextId, status, history: [userMessage], metadata: { agent: 'capture' } };
    } else if (step === 'status') {
      const status = { state: rest[0], timestamp: now(), ...(rest[1] && { message: message(rest[1]) }) };
      const final = FINAL.includes(rest[0]);
      yield { kind: 'status-update', taskId, contextId, status, final, metadata: { step: rest[0] } };
    } else if (step === 'artifact') {
      yield { kind: 'artifact-update', taskId, contextId, artifact: rest[0], ...rest[1] };
    } else if (step === 'message') {
      yield { kind: 'message', messageId: randomUUID(), role: 'agent', parts: rest[0], contextId };
    }
    // One event at a time, so that each reaches the wire as itself.
    await sleep(50);
  }
}

export const canceled = (taskId, contextId) => ({
  kind: 'status-update', taskId, contextId, status: { state: 'canceled', timestamp: now() }, final: true,
});

/** The arguments every server here takes. */
export function options() {
  const value = (name) => process.argv[process.argv.indexOf(name) + 1];
  return {
    http: Number(value('--http')),
    grpc: Number(value('--grpc')),
    public: value('--public'),
    publicGrpc: value('--public-grpc'),
    bare: process.argv.includes('--bare'),
  };
}

export function card(settings) {
  const text = readFileSync(new URL('./card.json', import.meta.url), 'utf8');
  const value = JSON.parse(text.replaceAll('$http', settings.public).replaceAll('$grpc', settings.publicGrpc));
  if (settings.bare) {
    value.capabilities = { streaming: false, pushNotifications: false };
    value.supportsAuthenticatedExtendedCard = false;
  }
  return value;
}
