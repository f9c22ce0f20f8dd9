// What the agents behind the JavaScript servers do: the same as in `behaviour.py`, where the words are explained.
//
// Steps are yielded in the objects of 0.3, since both SDKs can be fed from them.

import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

const CHUNK_MILLISECONDS = 300;
const RAW = Buffer.from([...Buffer.from('bytes '), 0x00, 0xff, 0x1b, ...Buffer.from(' of a file')]).toString('base64');
const FINAL = ['completed', 'failed', 'rejected', 'canceled', 'input-required', 'auth-required'];
const now = () => new Date().toISOString();
const said = (text) => [{ kind: 'text', text }];

/** The events of one turn. `hold` is a promise that is settled by a cancel; nothing comes after it. */
export async function* play({ text, answering, task, taskId, contextId, userMessage, base, hold }) {
  const ids = { taskId, contextId };
  const message = (parts, more = {}) => ({
    kind: 'message', messageId: randomUUID(), role: 'agent', parts, contextId, ...more,
  });
  const status = (state, words) => ({
    kind: 'status-update', ...ids, final: FINAL.includes(state),
    status: { state, timestamp: now(), ...(words && { message: message(said(words), { taskId }) }) },
  });
  const artifact = (name, parts, append = false, lastChunk = true) => ({
    kind: 'artifact-update', ...ids, append, lastChunk, artifact: { artifactId: `${name}-1`, name, parts },
  });
  const [, word, rest] = text.trim().match(/^(\S*) ?(.*)$/s);

  if (answering) {
    // Every stream begins with the task; over gRPC the SDK insists on it.
    yield { ...task, status: { state: 'working', timestamp: now() } };
    yield artifact('answer', said(text));
    yield status('completed', 'thank you');
    return;
  }
  if (word === 'message') {
    yield message(said(rest || 'a direct message'));
    return;
  }
  const begun = { state: 'submitted', timestamp: now() };
  yield { kind: 'task', id: taskId, contextId, status: begun, history: [userMessage] };
  yield status('working');
  if (word === 'slow') {
    const count = Number(rest || 3);
    for (let number = 1; number <= count; number += 1) {
      if (await Promise.race([hold, sleep(CHUNK_MILLISECONDS)]) === 'canceled') return;
      yield artifact('slow', said(`chunk ${number} `), number > 1, number === count);
    }
    yield status('completed');
  } else if (word === 'ask') yield status('input-required', 'Which city?');
  else if (word === 'auth') yield status('auth-required', 'Log in at https://login.example and say when you have');
  else if (word === 'fail') yield status('failed', 'it did not work');
  else if (word === 'reject') yield status('rejected', 'not my trade');
  else if (word === 'hold') await hold;
  else if (word === 'files') {
    yield artifact('files', [
      ...said('one of each'),
      { kind: 'file', file: { bytes: RAW, name: 'raw.bin', mimeType: 'application/octet-stream' } },
      { kind: 'file', file: { uri: `${base}/files/paper.txt`, name: 'paper.txt', mimeType: 'text/plain' } },
      // No null in it: the JavaScript SDK for 0.3 cannot write one over gRPC.
      { kind: 'data', data: { count: 3, list: [1, 'two', true] } },
    ]);
    yield status('completed');
  } else {
    yield artifact('echo', said(word === 'echo' ? rest : text));
    yield status('completed');
  }
}

export const canceled = (taskId, contextId) => ({
  kind: 'status-update', taskId, contextId, status: { state: 'canceled', timestamp: now() }, final: true,
});

/** Tasks that run: what a cancel has to settle. */
export class Holds {
  held = new Map();

  begin(taskId, contextId) {
    return new Promise((resolve) => this.held.set(taskId, { resolve, contextId }));
  }

  cancel(taskId) {
    const { resolve, contextId } = this.held.get(taskId);
    resolve('canceled');
    return canceled(taskId, contextId);
  }
}

/** Who calls: whoever has a token is known, and may see the extended card. A call is one of express or of gRPC. */
export function userOf(call) {
  const token = call.headers?.authorization ?? call.metadata?.get('authorization')[0];
  return { isAuthenticated: Boolean(token), userName: token ? 'somebody' : '' };
}

export const SKILLS = [{
  id: 'play', name: 'Play', description: 'Does what the first word says', tags: ['test'],
  examples: ['echo hello', 'slow 3', 'ask'],
}];

export function options() {
  const value = (name) => process.argv[process.argv.indexOf(name) + 1];
  const http = Number(value('--http'));
  const grpc = Number(value('--grpc'));
  return { http, grpc, base: `http://127.0.0.1:${http}`, has: (name) => process.argv.includes(name), value };
}
