// Drives an A2A server with the last official JavaScript SDK for 0.3 and reports, case by case, whether it kept its
// word.
//
//     client_v03.mjs BASE_URL [--binding JSONRPC] [--case send-blocking]
//
// Every case runs once per binding. Clients are made from the server's card alone, through the SDK's public calls and
// with its own defaults for timeouts and headers. The promise behind each case is in `../cases/a2a-0.3.txt`; the script
// the server plays is in `../sabir.toml`.

import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

import {
  AuthenticatedExtendedCardNotConfiguredError,
  ClientFactory,
  DefaultAgentCardResolver,
  JsonRpcTransport,
  JsonRpcTransportFactory,
  PushNotificationNotSupportedError,
  RestTransportFactory,
  ServiceParameters,
  TaskNotCancelableError,
  TaskNotFoundError,
  UnsupportedOperationError,
  withA2AExtensions,
} from '@a2a-js/sdk/client';
import { GrpcTransportFactory } from '@a2a-js/sdk/client/grpc';

import {
  Follower,
  HOOK,
  NotExpressible,
  QUIET_SECONDS,
  Wrong,
  equal,
  plain,
  present,
  refused as refusedWith,
  run,
} from './checks.mjs';

const TRANSPORTS = { JSONRPC: JsonRpcTransportFactory, 'HTTP+JSON': RestTransportFactory, GRPC: GrpcTransportFactory };
const BINDINGS = Object.keys(TRANSPORTS);
// Errors the SDK has no class for, by the code a user would look for: of JSON-RPC, and of gRPC.
const INVALID_PARAMS = { name: 'InvalidParams', code: -32602, status: 3 };
const METHOD_NOT_FOUND = { name: 'MethodNotFound', code: -32601, status: 12 };
// Over gRPC the SDK gives a class to this one on some calls only.
const UNSUPPORTED = { name: 'UnsupportedOperation', code: -32004, status: 12 };

const CASES = {};

class Peer {
  constructor(base, binding) {
    Object.assign(this, { base, binding });
  }

  async connect() {
    this.client = await this.factory().createFromUrl(this.base);
  }

  factory(options = {}) {
    return new ClientFactory({ transports: [new TRANSPORTS[this.binding]()], ...options });
  }

  send(message, configuration = undefined, options = undefined) {
    return this.client.sendMessage({ message, configuration }, options);
  }

  async sendForTask(message, configuration) {
    const reply = await this.send(message, configuration);
    equal('kind of reply', reply.kind, 'task');
    return reply;
  }

  sendStreaming(message, options = undefined) {
    return all(this.client.sendMessageStream({ message }, options));
  }

  get(id, historyLength = undefined) {
    return this.client.getTask({ id, historyLength });
  }

  cancel(id) {
    return this.client.cancelTask({ id });
  }

  subscribe(id) {
    return this.client.resubscribeTask({ id });
  }

  /** Runs `body` with a task that is still open, and does not leave it behind when the case ends badly. */
  async running(text, body, configuration = {}) {
    const task = await this.sendForTask(say(text), { blocking: false, ...configuration });
    try {
      await body(task);
    } finally {
      await this.cancel(task.id).catch(() => {});
    }
  }

  /** A client for the agent that neither streams nor pushes. */
  async plain() {
    // The SDK resolves paths like a browser does, so what is below an agent needs the slash.
    const card = await new DefaultAgentCardResolver().resolve(`${this.base}/agents/plain/`);
    const offered = [card.preferredTransport, ...(card.additionalInterfaces ?? []).map((i) => i.transport)];
    if (this.binding === 'GRPC' && !offered.includes('GRPC')) {
      throw new NotExpressible('0.3 cannot say which of the agents at one gRPC address is meant');
    }
    return this.factory().createFromAgentCard(card);
  }
}

// --- Words the cases are written in ----------------------------------------------------------------------------------

function say(text, fields = {}) {
  return { kind: 'message', messageId: randomUUID(), role: 'user', parts: [{ kind: 'text', text }], ...fields };
}

async function all(stream) {
  const events = [];
  for await (const event of stream) events.push(event);
  return events;
}

function inState(status, want, text = undefined) {
  equal('state', status?.state, want);
  if (text !== undefined) {
    equal('status text', textOf(status.message), text);
    equal('role of the status message', status.message.role, 'agent');
  }
}

function textOf(parted) {
  return (parted?.parts ?? []).map((part) => (part.kind === 'text' ? part.text : '')).join('');
}

function kinds(events) {
  return events.map((event) => event.kind);
}

function chunksOf(events) {
  return events.filter((event) => event.kind === 'artifact-update').map((event) => event.artifact);
}

/** The status a stream ended with: a server may close with an update or with a last snapshot of the task. */
function finalStatus(events) {
  present('events', events);
  const last = events.at(-1);
  if (!['task', 'status-update'].includes(last.kind)) throw new Wrong(`the stream ended with ${last.kind}`);
  return last.status;
}

/** Checks that `final` is on the last event and on no other. */
function endsWithFinal(events) {
  const updates = events.filter((event) => event.kind === 'status-update');
  present('status updates', updates);
  equal('last event', events.at(-1).kind, 'status-update');
  equal('final', updates.map((event) => event.final), updates.map((_, i) => i === updates.length - 1));
}

/**
 * Checks that a call fails with this error of the SDK, or with one of these. What arrives within a JSON-RPC stream the
 * SDK wraps, and what it has no class for it passes on with a code, or with the code in its text.
 */
function refused(wanted, call) {
  return refusedWith(wanted, call, (error, one) => {
    if (typeof one === 'function') return error instanceof one || error.cause instanceof one;
    const codes = [error.errorResponse?.error?.code, error.cause?.errorResponse?.error?.code];
    return codes.includes(one.code) || error.cause?.code === one.status || error.message.includes(`Code: ${one.code}`);
  });
}

/** What is unsupported has a class of its own, except over gRPC on most calls. */
function unsupported(peer) {
  return peer.binding === 'GRPC' ? [UnsupportedOperationError, UNSUPPORTED] : UnsupportedOperationError;
}

// --- Discovery -------------------------------------------------------------------------------------------------------

CASES['discover'] = async (peer) => {
  const card = await peer.client.getAgentCard();
  equal('name', card.name, 'demo');
  equal('description', card.description, 'conformance agent');
  equal('version', card.version, '1.0.0');
  equal('protocolVersion', card.protocolVersion.slice(0, 3), '0.3');
  equal('capabilities', [card.capabilities.streaming, card.capabilities.pushNotifications], [true, true]);
  const skills = card.skills.map((s) => [s.id, s.name, s.description, s.tags]);
  equal('skills', skills, [['demo', 'demo', 'demo', ['demo']]]);
  present('defaultInputModes', card.defaultInputModes);
  present('defaultOutputModes', card.defaultOutputModes);
  const offered = card.additionalInterfaces ?? [];
  const urls = Object.fromEntries(offered.map((i) => [i.transport, i.url.replace(/\/$/, '')]));
  const want = { JSONRPC: peer.base, 'HTTP+JSON': peer.base, GRPC: peer.base.replace('http://', '') };
  equal('urls', Object.entries(urls).sort(), Object.entries(want).sort());
  equal('preferred url', card.url.replace(/\/$/, ''), urls[card.preferredTransport ?? 'JSONRPC']);
};

CASES['discover-old-path'] = async (peer) => {
  const client = await peer.factory().createFromUrl(peer.base, '/.well-known/agent.json');
  equal('name', (await client.getAgentCard()).name, 'demo');
  inState((await client.sendMessage({ message: say('hello') })).status, 'completed');
};

CASES['discover-agent'] = async (peer) => {
  const client = await peer.plain();
  equal('name', (await client.getAgentCard()).name, 'plain');
  equal('who answered', textOf((await client.sendMessage({ message: say('hello') })).status.message), 'plainly');
};

CASES['discover-address'] = async () => {
  throw new NotExpressible('the SDK starts from a card');
};

CASES['extended-card'] = async (peer) => {
  // The SDK asks only if the card declares an extended one, so the client is given a card that claims it.
  const card = structuredClone(await peer.client.getAgentCard());
  card.supportsAuthenticatedExtendedCard = true;
  const client = await peer.factory().createFromAgentCard(card);
  if (peer.binding === 'GRPC') {
    const shown = await client.getAgentCard().catch(() => undefined);
    if (shown) return equal('name', shown.name, 'demo');
  }
  const wanted = [UnsupportedOperationError, AuthenticatedExtendedCardNotConfiguredError];
  await refused(wanted, () => client.getAgentCard());
};

// --- Sending and reading back ----------------------------------------------------------------------------------------

CASES['send-blocking'] = async (peer) => {
  const text = 'héllo wörld, ✓ 你好 🌊';
  const message = say(text);
  const task = await peer.sendForTask(message);
  present('id', task.id);
  present('contextId', task.contextId);
  inState(task.status, 'completed');
  if (!(Math.abs(Date.parse(task.status.timestamp) - Date.now()) < 600_000)) {
    throw new Wrong(`status timestamp is not now: ${task.status.timestamp}`);
  }
  equal('artifacts', task.artifacts.map(textOf), [text]);
  present('artifactId', task.artifacts[0].artifactId);
  present('history', task.history);
  const kept = task.history[0];
  equal('message in history', [kept.messageId, kept.role], [message.messageId, 'user']);
  equal('text in history', textOf(kept), text);
};

CASES['send-aggregate'] = async (peer) => {
  const task = await peer.sendForTask(say('stream, but in one reply'));
  inState(task.status, 'completed', 'done');
  const artifacts = task.artifacts.map((a) => [a.artifactId, a.name, textOf(a)]);
  equal('artifacts', artifacts, [['a1', 'draft', 'part one part two']]);
  const said = task.status.message;
  equal('ids of the status message', [said.taskId, said.contextId], [task.id, task.contextId]);
};

CASES['send-polling'] = async (peer) => {
  const open = ['submitted', 'working'];
  let task = await peer.sendForTask(say('soon'), { blocking: false });
  if (!open.includes(task.status.state)) throw new Wrong(`state in the reply: ${task.status.state}`);
  while (open.includes(task.status.state)) {
    await sleep(100);
    task = await peer.get(task.id);
  }
  inState(task.status, 'completed', 'it is done');
  equal('artifacts', task.artifacts.map(textOf), ['soon enough']);
};

CASES['return-immediately'] = async (peer) => {
  const started = Date.now();
  await peer.running('slow work', async (task) => {
    if (Date.now() - started > 4000) throw new Wrong('the reply was not immediate');
    if (!['submitted', 'working'].includes(task.status.state)) {
      throw new Wrong(`state in the reply: ${task.status.state}`);
    }
    let seen = await peer.get(task.id);
    while (seen.status.state === 'submitted') {
      await sleep(50);
      seen = await peer.get(task.id);
    }
    inState(seen.status, 'working', 'working on it');
    inState((await peer.cancel(task.id)).status, 'canceled');
    inState((await peer.get(task.id)).status, 'canceled');
  });
};

/** Sends a part to be echoed and checks that it comes back as it was. */
async function echoed(peer, part) {
  const parts = [{ kind: 'text', text: 'hello' }, part];
  const task = await peer.sendForTask(say('hello', { parts }));
  inState(task.status, 'completed');
  equal('artifacts', task.artifacts.length, 1);
  equal('parts', plain(task.artifacts[0].parts), plain(parts));
}

CASES['part-text'] = (peer) => echoed(peer, { kind: 'text', text: 'héllo wörld, ✓ 你好 🌊' });

CASES['part-bytes'] = (peer) => {
  const bytes = Buffer.from(Array.from({ length: 256 }, (_, i) => i)).toString('base64');
  return echoed(peer, { kind: 'file', file: { bytes, mimeType: 'application/octet-stream' } });
};

CASES['part-uri'] = (peer) =>
  echoed(peer, { kind: 'file', file: { uri: 'https://example.com/ä?x=1&y=%20#z', mimeType: 'image/png' } });

CASES['part-data'] = (peer) =>
  echoed(peer, {
    kind: 'data',
    data: { n: 1, half: -0.5, big: 9007199254740991, on: true, deep: { er: 'x' }, list: ['ü', [2], 1e-7] },
  });

CASES['part-name'] = (peer) => {
  if (peer.binding !== 'JSONRPC') throw new NotExpressible("the SDK's protocol buffers have no names of files");
  return echoed(peer, { kind: 'file', file: { bytes: 'AAEC/w==', mimeType: 'application/octet-stream', name: 'a b' } });
};

CASES['part-metadata'] = (peer) => {
  if (peer.binding !== 'JSONRPC') throw new NotExpressible("the SDK's protocol buffers have no metadata of parts");
  return echoed(peer, { kind: 'text', text: 'hi', metadata: { lang: 'en' } });
};

CASES['metadata'] = async (peer) => {
  const metadata = { 'urn:example:note': { seen: [1, 2] } };
  const sent = { message: say('hello', { metadata }), metadata: { 'urn:example:trace': 'abc' } };
  const task = await peer.client.sendMessage(sent);
  equal('metadata in history', plain(task.history[0].metadata ?? null), metadata);
};

CASES['file-parts'] = async (peer) => {
  const task = await peer.sendForTask(say('file me'));
  inState(task.status, 'completed');
  equal('artifacts', task.artifacts.map((a) => a.artifactId), ['f', 'd', 'u']);
  const [raw, data, uri] = task.artifacts.map((a) => a.parts[0]);
  equal('bytes', [raw.file.bytes, raw.file.mimeType], ['AAEC/w==', 'application/octet-stream']);
  if (peer.binding === 'JSONRPC') equal('name', raw.file.name, 'a.bin');
  equal('data', plain(data.data), { n: 1, list: [1, 2], ok: true });
  equal('uri', [uri.file.uri, uri.file.mimeType], ['https://example.com/x.png', 'image/png']);
};

CASES['direct-send'] = async (peer) => {
  const reply = await peer.send(say('direct please'));
  equal('kind of reply', reply.kind, 'message');
  equal('text', textOf(reply), 'just a message');
  equal('role', reply.role, 'agent');
  present('messageId', reply.messageId);
  present('contextId', reply.contextId);
  equal('taskId', reply.taskId || undefined, undefined);
};

CASES['failed'] = async (peer) => inState((await peer.sendForTask(say('fail now'))).status, 'failed', 'could not');

CASES['rejected'] = async (peer) =>
  inState((await peer.sendForTask(say('reject this'))).status, 'rejected', 'will not');

CASES['extensions-header'] = async (peer) => {
  const uris = ['https://example.com/ext/unknown/v1', 'urn:example:other'];
  const options = { serviceParameters: ServiceParameters.create(withA2AExtensions(uris)) };
  inState((await peer.send(say('hello'), undefined, options)).status, 'completed');
  inState(finalStatus(await peer.sendStreaming(say('hello'), options)), 'completed');
};

CASES['get-task'] = async (peer) => {
  const sent = await peer.sendForTask(say('hello'));
  equal('task', plain(await peer.get(sent.id)), plain(sent));
};

CASES['history-length'] = async (peer) => {
  const asked = await peer.sendForTask(say('book a table'));
  await peer.sendForTask(say('Tuesday', { taskId: asked.id }));
  const everything = await peer.get(asked.id);
  if (everything.history.length < 2) throw new Wrong(`history of two turns has ${everything.history.length} messages`);
  const latest = (await peer.get(asked.id, 1)).history.map((m) => m.messageId);
  equal('history at 1', latest, [everything.history.at(-1).messageId]);
  equal('history of a reply at 1', (await peer.sendForTask(say('hello'), { historyLength: 1 })).history.length, 1);
  // The protocol buffers of 0.3 cannot tell nought from nothing.
  if (peer.binding !== 'JSONRPC') return;
  equal('history at 0', ((await peer.get(asked.id, 0)).history ?? []).length, 0);
  await refused(INVALID_PARAMS, () => peer.get(asked.id, -1));
};

// --- Streams ---------------------------------------------------------------------------------------------------------

CASES['stream'] = async (peer) => {
  const events = await peer.sendStreaming(say('stream it'));
  present('events', events);
  const task = events[0];
  equal('first event', task.kind, 'task');
  present('id', task.id);
  present('contextId', task.contextId);
  for (const event of events.slice(1)) {
    equal('ids on an event', [event.taskId, event.contextId], [task.id, task.contextId]);
  }
  const spoken = events.slice(1).filter((event) => event.kind === 'artifact-update' || textOf(event.status?.message));
  equal('order of events', kinds(spoken), ['status-update', 'artifact-update', 'artifact-update', 'status-update']);
  const [looking, one, two, done] = spoken;
  inState(looking.status, 'working', 'looking');
  inState(done.status, 'completed', 'done');
  const { artifactId, name } = one.artifact;
  equal('first chunk', [artifactId, name, textOf(one.artifact)], ['a1', 'draft', 'part one ']);
  equal('flags of the first chunk', [!!one.append, !!one.lastChunk], [false, false]);
  equal('second chunk', [two.artifact.artifactId, textOf(two.artifact)], ['a1', 'part two']);
  // Over the other bindings the SDK loses `append` on the way in.
  equal('flags of the second chunk', [peer.binding !== 'JSONRPC' || two.append, two.lastChunk], [true, true]);
  inState(finalStatus(events), 'completed');
  const stored = await peer.get(task.id);
  inState(stored.status, 'completed', 'done');
  equal('stored artifact', stored.artifacts.map(textOf), ['part one part two']);
};

CASES['stream-final'] = async (peer) => {
  endsWithFinal(await peer.sendStreaming(say('stream it')));
  endsWithFinal(await peer.sendStreaming(say('fail now')));
  const asked = await peer.sendStreaming(say('book a table'));
  endsWithFinal(asked);
  endsWithFinal(await peer.sendStreaming(say('Tuesday', { taskId: asked[0].id })));
  await peer.running('slow work', async (task) => {
    const follower = await new Follower(peer.subscribe(task.id)).opened();
    await peer.cancel(task.id);
    endsWithFinal(await follower.ended());
  });
};

CASES['stream-dropped'] = async (peer) => {
  let task;
  for await (const event of peer.client.sendMessageStream({ message: say('slow, and nobody reads on') })) {
    task = event;
    break;
  }
  present('id', task.id);
  try {
    await sleep(500);
    inState((await peer.get(task.id)).status, 'working', 'working on it');
  } finally {
    await peer.cancel(task.id);
  }
};

CASES['stream-fallback'] = async (peer) => {
  const client = await peer.plain();
  const events = await all(client.sendMessageStream({ message: say('hello') }));
  equal('events', kinds(events), ['task']);
  inState(events[0].status, 'completed', 'plainly');
};

CASES['direct-stream'] = async (peer) => {
  const events = await peer.sendStreaming(say('direct please'));
  equal('events', kinds(events), ['message']);
  equal('message', [textOf(events[0]), events[0].role], ['just a message', 'agent']);
};

CASES['subscribe-cancel'] = (peer) =>
  peer.running('slow work', async (task) => {
    const follower = await new Follower(peer.subscribe(task.id)).opened();
    equal('first event', [follower.events[0].kind, follower.events[0].id], ['task', task.id]);
    inState((await peer.cancel(task.id)).status, 'canceled');
    inState(finalStatus(await follower.ended()), 'canceled');
  });

CASES['subscribe-two'] = async (peer) => {
  const asked = await peer.sendForTask(say('book a table'));
  const followers = [];
  for (let i = 0; i < 2; i++) followers.push(await new Follower(peer.subscribe(asked.id)).opened());
  await peer.sendForTask(say('Tuesday', { taskId: asked.id }));
  const [one, two] = await Promise.all(followers.map((follower) => follower.ended()));
  equal('events of the second subscription', plain(two), plain(one));
};

CASES['subscribe-input'] = async (peer) => {
  const asked = await peer.sendForTask(say('book a table'));
  const follower = await new Follower(peer.subscribe(asked.id)).opened();
  equal('first event', follower.events[0].kind, 'task');
  inState(follower.events[0].status, 'input-required', 'Which day?');
  await peer.sendForTask(say('Tuesday', { taskId: asked.id }));
  const events = await follower.ended();
  equal('artifacts', chunksOf(events).map((a) => [a.artifactId, textOf(a)]), [['booking', 'booked']]);
  inState(finalStatus(events), 'completed');
  endsWithFinal(events);
};

CASES['subscribe-quiet'] = (peer) =>
  peer.running('slow work', async (task) => {
    const follower = await new Follower(peer.subscribe(task.id)).opened();
    await sleep(QUIET_SECONDS * 1000);
    await peer.cancel(task.id);
    inState(finalStatus(await follower.ended()), 'canceled');
  });

// --- More than one turn ----------------------------------------------------------------------------------------------

CASES['multi-turn'] = async (peer) => {
  const asked = await peer.sendForTask(say('book a table'));
  inState(asked.status, 'input-required', 'Which day?');
  const done = await peer.sendForTask(say('Tuesday', { taskId: asked.id }));
  equal('ids', [done.id, done.contextId], [asked.id, asked.contextId]);
  inState(done.status, 'completed', 'booked');
  equal('artifacts', done.artifacts.map((a) => [a.artifactId, textOf(a)]), [['booking', 'booked']]);
};

CASES['multi-turn-stream'] = async (peer) => {
  const first = await peer.sendStreaming(say('book a table'));
  const asked = first[0];
  equal('first event', asked.kind, 'task');
  inState(finalStatus(first), 'input-required', 'Which day?');
  const second = await peer.sendStreaming(say('Tuesday', { taskId: asked.id, contextId: asked.contextId }));
  equal('first event of the second turn', second[0].kind, 'task');
  equal('ids', [second[0].id, second[0].contextId], [asked.id, asked.contextId]);
  equal('artifacts', chunksOf(second).map((a) => [a.artifactId, textOf(a)]), [['booking', 'booked']]);
  inState(finalStatus(second), 'completed', 'booked');
};

CASES['auth-required'] = async (peer) => {
  const asked = await peer.sendForTask(say('auth please'));
  inState(asked.status, 'auth-required', 'log in');
  const done = await peer.sendForTask(say('I did', { taskId: asked.id }));
  equal('id', done.id, asked.id);
  inState(done.status, 'completed', 'in');
};

CASES['context-kept'] = async (peer) => {
  const chosen = `context-${randomUUID()}`;
  equal('contextId', (await peer.sendForTask(say('hello', { contextId: chosen }))).contextId, chosen);
};

CASES['context-continued'] = async (peer) => {
  const first = await peer.sendForTask(say('hello'));
  const second = await peer.sendForTask(say('hello again', { contextId: first.contextId }));
  equal('contextId', second.contextId, first.contextId);
  if (second.id === first.id) throw new Wrong('the second message is in the first task');
};

CASES['context-mismatch'] = async (peer) => {
  const asked = await peer.sendForTask(say('book a table'));
  const { contextId } = await peer.sendForTask(say('hello'));
  await refused(INVALID_PARAMS, () => peer.send(say('Tuesday', { taskId: asked.id, contextId })));
  inState((await peer.get(asked.id)).status, 'input-required');
};

// --- Refusals --------------------------------------------------------------------------------------------------------

CASES['get-unknown'] = (peer) => refused(TaskNotFoundError, () => peer.get(randomUUID()));

CASES['get-unknown-unicode'] = (peer) => refused(TaskNotFoundError, () => peer.get('tâche perdue ✗'));

CASES['cancel-unknown'] = (peer) => refused(TaskNotFoundError, () => peer.cancel(randomUUID()));

CASES['cancel-settled'] = async (peer) => {
  const task = await peer.sendForTask(say('hello'));
  await refused(TaskNotCancelableError, () => peer.cancel(task.id));
};

CASES['subscribe-unknown'] = (peer) => refused(TaskNotFoundError, () => all(peer.subscribe(randomUUID())));

CASES['subscribe-settled'] = async (peer) => {
  const task = await peer.sendForTask(say('hello'));
  await refused(UnsupportedOperationError, () => all(peer.subscribe(task.id)));
};

CASES['stream-unknown-task'] = (peer) =>
  refused(TaskNotFoundError, () => peer.sendStreaming(say('hello', { taskId: randomUUID() })));

CASES['send-settled'] = async (peer) => {
  const { id: taskId } = await peer.sendForTask(say('hello'));
  await refused(unsupported(peer), () => peer.send(say('one more thing', { taskId })));
  await refused(unsupported(peer), () => peer.sendStreaming(say('and another', { taskId })));
};

CASES['send-unknown-task'] = (peer) =>
  refused(TaskNotFoundError, () => peer.send(say('hello', { taskId: randomUUID() })));

CASES['send-no-parts'] = (peer) => refused(INVALID_PARAMS, () => peer.send(say('', { parts: [] })));

CASES['unknown-method'] = async (peer) => {
  if (peer.binding !== 'JSONRPC') throw new NotExpressible('the SDK calls only what it knows');
  const transport = new JsonRpcTransport({ endpoint: (await peer.client.getAgentCard()).url });
  await refused(METHOD_NOT_FOUND, () => transport.callExtensionMethod('tasks/nothing', {}, 7));
};

// --- Push configurations ---------------------------------------------------------------------------------------------

function setHook(client, taskId, id, fields = {}) {
  return client.setTaskPushNotificationConfig({ taskId, pushNotificationConfig: { id, url: HOOK, ...fields } });
}

function getHook(peer, taskId, id) {
  return peer.client.getTaskPushNotificationConfig({ id: taskId, pushNotificationConfigId: id });
}

async function hooks(peer, taskId) {
  const list = await peer.client.listTaskPushNotificationConfig({ id: taskId });
  return list.map((c) => c.pushNotificationConfig.id).sort();
}

CASES['push-set'] = (peer) =>
  peer.running('book a table', async (task) => {
    const authentication = { schemes: ['Bearer'], credentials: 'secret' };
    const made = await setHook(peer.client, task.id, 'mine', { token: 'tok', authentication });
    const set = made.pushNotificationConfig;
    equal('set', [made.taskId, set.id, set.url], [task.id, 'mine', HOOK]);
    const got = await getHook(peer, task.id, 'mine');
    const kept = got.pushNotificationConfig;
    // Not the token: a server may keep secrets to itself.
    equal('got', [got.taskId, kept.id, kept.url], [task.id, 'mine', HOOK]);
    equal('schemes', kept.authentication?.schemes, ['Bearer']);
  });

CASES['push-list'] = (peer) =>
  peer.running('book a table', async (task) => {
    for (const id of ['one', 'two']) await setHook(peer.client, task.id, id);
    equal('listed', await hooks(peer, task.id), ['one', 'two']);
  });

CASES['push-delete'] = (peer) =>
  peer.running('book a table', async (task) => {
    for (const id of ['first', 'second']) await setHook(peer.client, task.id, id);
    const first = { id: task.id, pushNotificationConfigId: 'first' };
    await peer.client.deleteTaskPushNotificationConfig(first);
    equal('left after deletion', await hooks(peer, task.id), ['second']);
    await refused(TaskNotFoundError, () => getHook(peer, task.id, 'first'));
    await peer.client.deleteTaskPushNotificationConfig(first);
  });

CASES['push-inline'] = (peer) =>
  peer.running(
    'book a table',
    async (task) => {
      const got = await getHook(peer, task.id, 'inline');
      equal('got', [got.taskId, got.pushNotificationConfig.url], [task.id, HOOK]);
    },
    { pushNotificationConfig: { id: 'inline', url: HOOK, token: 'tok' } },
  );

CASES['push-unknown'] = (peer) => refused(TaskNotFoundError, () => setHook(peer.client, randomUUID(), 'mine'));

CASES['push-unsupported'] = async (peer) => {
  const client = await peer.plain();
  const task = await client.sendMessage({ message: say('hello') });
  // The SDK looks at the card before it asks; the call that has no such check goes to the server.
  await refused(PushNotificationNotSupportedError, async () => setHook(client, task.id, 'mine'));
  const gone = { id: task.id, pushNotificationConfigId: 'mine' };
  await refused(PushNotificationNotSupportedError, () => client.deleteTaskPushNotificationConfig(gone));
};

await run({ make: (...given) => new Peer(...given), bindings: BINDINGS, cases: { 0.3: CASES } });
