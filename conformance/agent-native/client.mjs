// Drives an A2A server with the client of the agent-native framework and reports, case by case, whether it kept its
// word.
//
//     client.mjs BASE_URL [--case call-agent]
//
// The client finds its endpoint by itself and tries further ones when the first does not answer; a watch on `fetch`
// says which it used. The promise behind each case is in `../cases/agent-native.txt`; the script the server plays is in
// `../sabir.toml`. Of the package, whose dependencies nobody needs for this, only the files of the client are unpacked.

import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

import {
  A2AClient,
  A2ATaskTerminalError,
  A2ATaskTimeoutError,
  callAgent,
} from './node_modules/@agent-native/core/dist/a2a/client.js';

import { Wrong, equal, plain, present, refused, run } from './checks.mjs';

// The client tells its steps; results alone go to standard output.
console.log = console.error;

const STATES = ['submitted', 'working', 'processing', 'completed', 'failed', 'canceled', 'input-required'];
// The default is two seconds, for servers that are far away.
const POLL = { pollIntervalMs: 100 };

const CASES = {};

class Peer {
  constructor(base, binding) {
    Object.assign(this, { base, binding });
  }

  async connect() {
    // Loopback is refused unless the origin is listed.
    process.env.AGENT_NATIVE_A2A_ALLOWED_ORIGINS = this.base;
    this.client = new A2AClient(this.base);
  }

  /** A call whose reply is a task, with what the client needs of every task. */
  async task(promise) {
    return whole(await promise);
  }
}

function whole(task) {
  present('id', task.id);
  if (!STATES.includes(task.status?.state)) throw new Wrong(`unknown state ${task.status?.state}`);
  if (Number.isNaN(Date.parse(task.status.timestamp))) throw new Wrong(`no time: ${task.status.timestamp}`);
  return task;
}

function say(text) {
  return { role: 'user', parts: [{ type: 'text', text }] };
}

function textOf(parted) {
  return (parted?.parts ?? []).map((part) => (part.type === 'text' ? part.text : '')).join('');
}

function inState(task, want, text = undefined) {
  equal('state', task.status.state, want);
  if (text !== undefined) {
    equal('status text', textOf(task.status.message), text);
    equal('role of the status message', task.status.message.role, 'agent');
  }
}

/** The paths that were fetched while `body` ran. */
async function watched(body) {
  const real = globalThis.fetch;
  const paths = [];
  globalThis.fetch = (url, init) => {
    paths.push(`${init?.method ?? 'GET'} ${new URL(url).pathname}`);
    return real(url, init);
  };
  try {
    await body();
  } finally {
    globalThis.fetch = real;
  }
  return paths;
}

// --- Discovery -------------------------------------------------------------------------------------------------------

CASES['discover'] = async (peer) => {
  const card = await peer.client.getAgentCard();
  equal('name', card.name, 'demo');
  equal('description', card.description, 'conformance agent');
  equal('version', card.version, '1.0.0');
  present('url', card.url);
  equal('streaming', card.capabilities.streaming, true);
  equal('skills', card.skills.map((s) => [s.id, s.name, s.description]), [['demo', 'demo', 'demo']]);
};

CASES['discover-endpoint'] = async (peer) => {
  const paths = await watched(async () => inState(await new A2AClient(peer.base).send(say('hello')), 'completed'));
  equal('calls', paths, ['GET /.well-known/agent-card.json', 'POST /_agent-native/a2a']);
};

// --- Sending ---------------------------------------------------------------------------------------------------------

CASES['call-agent'] = async (peer) => equal('words', await callAgent(peer.base, 'soon please', POLL), 'it is done');

CASES['call-agent-endpoint'] = async (peer) => {
  const words = await callAgent(`${peer.base}/_agent-native/a2a`, 'héllo wörld, ✓ 你好 🌊', POLL);
  equal('words', words, 'héllo wörld, ✓ 你好 🌊');
};

CASES['call-agent-blocking'] = async (peer) =>
  equal('words', await callAgent(peer.base, 'soon please', { async: false }), 'it is done');

CASES['send-blocking'] = async (peer) => {
  const task = await peer.task(peer.client.send(say('soon please')));
  inState(task, 'completed', 'it is done');
  present('contextId', task.contextId);
  if (Math.abs(Date.parse(task.status.timestamp) - Date.now()) > 600_000) {
    throw new Wrong(`not now: ${task.status.timestamp}`);
  }
};

CASES['send-async'] = async (peer) => {
  let task = await peer.task(peer.client.send(say('soon please'), { async: true }));
  if (['completed', 'failed'].includes(task.status.state)) throw new Wrong(`state in the reply: ${task.status.state}`);
  while (!['completed', 'failed'].includes(task.status.state)) {
    await sleep(100);
    task = await peer.task(peer.client.getTask(task.id));
  }
  inState(task, 'completed', 'it is done');
};

CASES['send-and-wait'] = async (peer) => {
  const seen = [];
  const onUpdate = (task) => seen.push(task.status.state);
  const task = whole(await peer.client.sendAndWait(say('soon please'), { ...POLL, onUpdate }));
  inState(task, 'completed', 'it is done');
  equal('last update', seen.at(-1), 'completed');
  if (!seen.some((state) => ['submitted', 'working', 'processing'].includes(state))) {
    throw new Wrong(`no progress was seen: ${seen}`);
  }
};

CASES['send-aggregate'] = async (peer) => {
  const task = await peer.task(peer.client.send(say('stream, but in one reply')));
  inState(task, 'completed', 'done');
  equal('artifacts', task.artifacts.map(textOf), ['part one part two']);
};

CASES['send-parts'] = async (peer) => {
  const parts = [
    { type: 'text', text: 'one of each' },
    { type: 'file', file: { name: 'a.txt', mimeType: 'text/plain', bytes: 'aGVsbG8/Pj4+' } },
    { type: 'file', file: { mimeType: 'image/png', uri: 'https://example.com/b?x=1' } },
    { type: 'data', data: { n: 1, half: -0.5, list: [1, 'two', null, true], deep: { er: {} } } },
  ];
  const task = await peer.task(peer.client.send({ role: 'user', parts }));
  inState(task, 'completed');
  equal('parts', plain(task.artifacts[0].parts), parts);
};

CASES['send-metadata'] = async (peer) => {
  const contextId = `context-${randomUUID()}`;
  const task = await peer.task(peer.client.send(say('hello'), { contextId, metadata: { note: 'x', depth: 1 } }));
  inState(task, 'completed');
  equal('contextId', task.contextId, contextId);
};

CASES['direct-send'] = async (peer) => {
  inState(await peer.task(peer.client.send(say('direct please'))), 'completed', 'just a message');
  equal('words', await callAgent(peer.base, 'direct please', POLL), 'just a message');
};

CASES['idempotent'] = async (peer) => {
  const idempotencyKey = `key-${randomUUID()}`;
  for (let i = 0; i < 2; i++) {
    inState(whole(await peer.client.sendAndWait(say('hello'), { ...POLL, idempotencyKey })), 'completed', 'hello');
  }
};

// --- Reading back and streams ----------------------------------------------------------------------------------------

CASES['get-task'] = async (peer) => {
  const sent = await peer.task(peer.client.send(say('stream, but in one reply')));
  const got = await peer.task(peer.client.getTask(sent.id));
  const told = ({ id, contextId, status, artifacts }) => ({ id, contextId, status, artifacts });
  equal('task', told(got), told(sent));
};

async function streamed(peer, text) {
  const tasks = [];
  for await (const task of peer.client.stream(say(text))) tasks.push(whole(structuredClone(task)));
  present('events', tasks);
  equal('ids', [...new Set(tasks.map((task) => task.id))].length, 1);
  return tasks;
}

CASES['stream'] = async (peer) => {
  const tasks = await streamed(peer, 'stream it');
  const states = tasks.map((task) => task.status.state);
  equal('last state', states.at(-1), 'completed');
  equal('states before', states.slice(0, -1).filter((state) => !['submitted', 'working'].includes(state)), []);
  if (!states.includes('working')) throw new Wrong(`no progress was seen: ${states}`);
  inState(tasks.at(-1), 'completed', 'done');
  equal('artifacts', tasks.at(-1).artifacts.map(textOf), ['part one part two']);
};

CASES['stream-direct'] = async (peer) => {
  const tasks = await streamed(peer, 'direct please');
  inState(tasks.at(-1), 'completed', 'just a message');
};

// --- Refusals --------------------------------------------------------------------------------------------------------

/** Checks that a call ends in this error of the client, and that the error says this. */
async function ends(error, members, call) {
  let caught;
  await refused(error, async () => {
    try {
      return await call();
    } catch (thrown) {
      caught = thrown;
      throw thrown;
    }
  });
  for (const [name, want] of Object.entries(members)) equal(name, caught[name], want);
  present('taskId', caught.taskId);
}

CASES['call-failed'] = (peer) =>
  ends(A2ATaskTerminalError, { state: 'failed', responseText: 'could not' }, () =>
    callAgent(peer.base, 'fail now', POLL),
  );

CASES['call-input-required'] = (peer) =>
  ends(A2ATaskTerminalError, { state: 'input-required', responseText: 'Which day?' }, () =>
    callAgent(peer.base, 'book a table', POLL),
  );

CASES['call-timeout'] = (peer) =>
  ends(A2ATaskTimeoutError, { lastState: 'processing' }, () =>
    callAgent(peer.base, 'slow work', { ...POLL, timeoutMs: 1500 }),
  );

const saying = (text) => [{ name: `an error with ${text}` }, (error) => error.message.includes(text)];

CASES['get-unknown'] = (peer) => {
  const [wanted, same] = saying('-32001');
  return refused(wanted, () => peer.client.getTask(randomUUID()), same);
};

CASES['invoke-action'] = (peer) => {
  const [wanted, same] = saying('-320');
  return refused(wanted, () => peer.client.invokeAction('look', {}), same);
};

await run({ make: (...given) => new Peer(...given), bindings: ['JSONRPC'], cases: { 'agent-native': CASES } });
