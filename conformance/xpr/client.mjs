// Drives an A2A server with the client of the XPR agents SDK and reports, case by case, whether it kept its word.
//
//     client.mjs BASE_URL [--case send-blocking]
//
// The client knows one binding and two fixed paths. It checks nothing of what it is given, so what its callers rely on
// is checked here. The promise behind each case is in `../cases/xpr.txt`; the script the server plays is in
// `../sabir.toml`.

import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

import { A2AClient, A2AError } from '@xpr-agents/sdk';

import { Wrong, equal, plain, present, refused as refusedWith, run } from './checks.mjs';

// A key everybody knows: development chains of this family are delivered with it.
const SIGNING_KEY = '5KQwrPbwdL6PhXujxW37FSSQZ1JiwsST4cqQzDeyXtP79zkvwD3';
const STATES = ['submitted', 'working', 'input-required', 'completed', 'failed', 'canceled'];

const CASES = {};

class Peer {
  constructor(base, binding) {
    Object.assign(this, { base, binding });
  }

  async connect() {
    this.client = new A2AClient(this.base);
  }

  /** message/send, with what callers expect of every task. */
  async send(message, options = {}, client = this.client) {
    const task = await client.sendMessage(message, options);
    present('id', task.id);
    if (!STATES.includes(task.status?.state)) throw new Wrong(`unknown state ${task.status?.state}`);
    if (Number.isNaN(Date.parse(task.status.timestamp))) throw new Wrong(`no time: ${task.status.timestamp}`);
    return task;
  }
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

function refused(code, call) {
  return refusedWith({ name: `A2AError ${code}` }, call, (error) => error instanceof A2AError && error.code === code);
}

// --- Discovery -------------------------------------------------------------------------------------------------------

CASES['discover'] = async (peer) => {
  const card = await peer.client.getAgentCard();
  equal('name', card.name, 'demo');
  equal('description', card.description, 'conformance agent');
  equal('version', card.version, '1.0.0');
  present('url', card.url);
  equal('capabilities', [card.capabilities.streaming, card.capabilities.pushNotifications], [true, true]);
  equal('skills', card.skills.map((s) => [s.id, s.name, s.description]), [['demo', 'demo', 'demo']]);
};

CASES['discover-endpoint'] = async (peer) => {
  for (const base of [peer.base, `${peer.base}/`]) {
    inState(await peer.send(say('hello'), {}, new A2AClient(base)), 'completed');
  }
};

// --- Sending and reading back ----------------------------------------------------------------------------------------

CASES['send-blocking'] = async (peer) => {
  const text = 'héllo wörld, ✓ 你好 🌊';
  const task = await peer.send(say(text));
  inState(task, 'completed');
  present('contextId', task.contextId);
  if (Math.abs(Date.parse(task.status.timestamp) - Date.now()) > 600_000) {
    throw new Wrong(`not now: ${task.status.timestamp}`);
  }
  equal('artifacts', task.artifacts.map(textOf), [text]);
};

CASES['send-aggregate'] = async (peer) => {
  const task = await peer.send(say('stream, but in one reply'));
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
  const task = await peer.send({ role: 'user', parts });
  inState(task, 'completed');
  equal('parts', plain(task.artifacts[0].parts), parts);
};

CASES['send-job'] = async (peer) => {
  const contextId = `context-${randomUUID()}`;
  const task = await peer.send(say('about the job'), { contextId, jobId: 42, metadata: { note: 'x' } });
  inState(task, 'completed');
  equal('contextId', task.contextId, contextId);
};

CASES['send-named'] = async (peer) => {
  const taskId = `trip-${randomUUID()}`;
  const task = await peer.send(say('hello'), { taskId });
  equal('id', task.id, taskId);
  inState(task, 'completed');
  equal('id when it is read', (await peer.client.getTask(taskId)).id, taskId);
};

CASES['send-account'] = async (peer) => {
  for (const options of [{ callerAccount: 'alice' }, { callerAccount: 'alice', signingKey: SIGNING_KEY }]) {
    const client = new A2AClient(peer.base, options);
    const task = await peer.send(say('Grüße 世界 🌍'), {}, client);
    equal('artifacts', task.artifacts.map(textOf), ['Grüße 世界 🌍']);
    equal('id when it is read', (await client.getTask(task.id)).id, task.id);
  }
};

CASES['direct-send'] = async (peer) => {
  const task = await peer.send(say('direct please'));
  inState(task, 'completed');
  const texts = [textOf(task.status.message), ...(task.artifacts ?? []).map(textOf)];
  if (!texts.includes('just a message')) throw new Wrong(`the text is missing: ${JSON.stringify(task)}`);
};

CASES['failed'] = async (peer) => inState(await peer.send(say('fail now')), 'failed', 'could not');

CASES['get-task'] = async (peer) => {
  const sent = await peer.send(say('hello'));
  equal('task', await peer.client.getTask(sent.id), sent);
};

// --- More than one turn ----------------------------------------------------------------------------------------------

CASES['multi-turn'] = async (peer) => {
  const asked = await peer.send(say('book a table'));
  inState(asked, 'input-required', 'Which day?');
  const done = await peer.send(say('Tuesday'), { taskId: asked.id });
  equal('ids', [done.id, done.contextId], [asked.id, asked.contextId]);
  inState(done, 'completed', 'booked');
  equal('artifacts', done.artifacts.map(textOf), ['booked']);
};

// --- Refusals --------------------------------------------------------------------------------------------------------

CASES['get-unknown'] = (peer) => refused(-32001, () => peer.client.getTask(randomUUID()));

CASES['cancel-unknown'] = (peer) => refused(-32001, () => peer.client.cancelTask(randomUUID()));

CASES['cancel-settled'] = async (peer) => {
  const task = await peer.send(say('hello'));
  await refused(-32002, () => peer.client.cancelTask(task.id));
};

CASES['cancel-waiting'] = async (peer) => {
  const asked = await peer.send(say('book a table'));
  inState(await peer.client.cancelTask(asked.id), 'canceled');
  await sleep(200);
  inState(await peer.client.getTask(asked.id), 'canceled');
};

CASES['send-no-parts'] = (peer) => refused(-32602, () => peer.send({ role: 'user', parts: [] }));

await run({ make: (...given) => new Peer(...given), bindings: ['JSONRPC'], cases: { xpr: CASES } });
