// Drives an A2A server with the official JavaScript SDK 1.x and reports, case by case, whether it kept its word.
//
//     client_v1.mjs BASE_URL [--speak 1.0 | 0.3] [--binding JSONRPC] [--case send-blocking]
//
// Every case runs once per binding the SDK's client speaks. Only public calls of the SDK are used, with its own
// defaults for timeouts and headers: what is tested is what its users will meet. The promise behind each case is in
// `../cases/`; the script the server plays is in `../sabir.toml`. Told to speak 0.3, the client is given a card from
// which all newer interfaces were struck, and so uses its transports for older servers.

import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';

import {
  ListTaskPushNotificationConfigsRequest,
  ListTasksRequest,
  Role,
  SendMessageRequest,
  TaskPushNotificationConfig,
  TaskState,
} from '@a2a-js/sdk';
import {
  ClientFactory,
  DefaultAgentCardResolver,
  JsonRpcTransportFactory,
  RestTransportFactory,
  ServiceParameters,
  withA2AExtensions,
} from '@a2a-js/sdk/client';
import { GrpcTransportFactory } from '@a2a-js/sdk/client/grpc';
import {
  ExtendedAgentCardNotConfiguredError,
  PushNotificationNotSupportedError,
  RequestMalformedError,
  TaskNotCancelableError,
  TaskNotFoundError,
  UnsupportedOperationError,
  VersionNotSupportedError,
} from '@a2a-js/sdk/errors';

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
  short,
} from './checks.mjs';

const TRANSPORTS = {
  JSONRPC: JsonRpcTransportFactory,
  'HTTP+JSON': RestTransportFactory,
  GRPC: GrpcTransportFactory,
};
const BINDINGS = Object.keys(TRANSPORTS);

// For both versions, for 1.0 alone, for 0.3 alone.
const CASES = {};
const NEWER = {};
const OLDER = {};

/**
 * The SDK's client for one binding. One is enough: over HTTP/1.1 every open stream holds a connection of its own, and
 * gRPC channels to one target share theirs whatever one does, because the SDK passes no channel options on.
 */
class Peer {
  constructor(base, binding, version) {
    Object.assign(this, { base, binding, version });
  }

  async connect() {
    if (this.version === '1.0') {
      this.client = await this.factory().createFromUrl(this.base);
    } else {
      this.client = await this.factory().createFromAgentCard(await this.olderCard());
      streamsWrapErrors = true;
    }
  }

  factory(options = {}) {
    const transport = new TRANSPORTS[this.binding](this.version === '0.3' ? { legacyCompat: { enabled: true } } : {});
    return new ClientFactory({ transports: [transport], ...options });
  }

  /** The card without the interfaces this client would prefer. Old clients name no version, nor does this one. */
  async olderCard(at = '', path = undefined) {
    const resolver = new DefaultAgentCardResolver({ legacyCompat: { enabled: true }, fetchImpl: (url) => fetch(url) });
    // It resolves paths like a browser does, so what is below an agent needs the slash.
    const card = await resolver.resolve(`${this.base}${at}/`, path);
    const supportedInterfaces = card.supportedInterfaces.filter((i) => i.protocolVersion.startsWith('0.3'));
    present('interfaces of 0.3', supportedInterfaces);
    return { ...card, supportedInterfaces };
  }

  send(message, configuration = {}, options = undefined) {
    return this.client.sendMessage(request(message, configuration), options);
  }

  async sendForTask(message, configuration) {
    const reply = await this.send(message, configuration);
    if (!('status' in reply)) throw new Wrong(`expected a task, got a message: ${short(reply)}`);
    return reply;
  }

  sendStreaming(message, options = undefined) {
    return all(this.client.sendMessageStream(request(message), options));
  }

  get(id, historyLength = undefined) {
    return this.client.getTask({ tenant: '', id, historyLength });
  }

  cancel(id) {
    return this.client.cancelTask({ tenant: '', id, metadata: undefined });
  }

  list(fields) {
    return this.client.listTasks(ListTasksRequest.fromJSON(fields));
  }

  subscribe(id) {
    return this.client.resubscribeTask({ tenant: '', id });
  }

  /** Runs `body` with a task that is still open, and does not leave it behind when the case ends badly. */
  async running(text, body, configuration = {}) {
    const task = await this.sendForTask(say(text), { returnImmediately: true, ...configuration });
    try {
      await body(task);
    } finally {
      await this.cancel(task.id).catch(() => {});
    }
  }
}

// --- Words the cases are written in ----------------------------------------------------------------------------------

/** A message in ProtoJSON, from which the SDK's own codec makes the object its client wants. */
function say(text, fields = {}) {
  return { messageId: randomUUID(), role: 'ROLE_USER', parts: [{ text }], ...fields };
}

function request(message, configuration = {}) {
  return SendMessageRequest.fromJSON({ message, configuration });
}

async function* payloads(stream) {
  for await (const event of stream) yield event.payload;
}

async function all(stream) {
  const events = [];
  for await (const event of payloads(stream)) events.push(event);
  return events;
}

/** A subscription read in the background. */
function follow(stream) {
  return new Follower(payloads(stream));
}

function inState(status, want, text = undefined) {
  equal('state', TaskState[status?.state], TaskState[want]);
  if (text !== undefined) {
    equal('status text', textOf(status.message), text);
    equal('role of the status message', status.message.role, Role.ROLE_AGENT);
  }
}

function textOf(parted) {
  return (parted?.parts ?? []).map((part) => (part.content?.$case === 'text' ? part.content.value : '')).join('');
}

function kinds(events) {
  return events.map((event) => event?.$case);
}

function chunksOf(events) {
  return events.filter((event) => event.$case === 'artifactUpdate').map((event) => event.value);
}

/** The status a stream ended with: a server may close with an update or with a last snapshot of the task. */
function finalStatus(events) {
  present('events', events);
  const last = events.at(-1);
  if (!['task', 'statusUpdate'].includes(last?.$case)) throw new Wrong(`the stream ended with ${last?.$case}`);
  return last.value.status;
}

// What arrives within a JSON-RPC stream of 0.3 the SDK wraps into an error without a class of its own.
let streamsWrapErrors = false;

/** Checks that a call fails with exactly this error of the SDK. */
function refused(error, call) {
  const same = (got, wanted) => got instanceof wanted || (streamsWrapErrors && got.cause instanceof wanted);
  return refusedWith(error, call, same);
}

/** Whether the SDK's own protocol buffers stand between us and the wire; those of 0.3 carry less. */
function narrow(peer) {
  return peer.version === '0.3' && peer.binding !== 'JSONRPC';
}

// --- Discovery -------------------------------------------------------------------------------------------------------

CASES['discover'] = async (peer) => {
  // Without the extended-card capability the SDK answers this call from the card it was created with.
  const card = await peer.client.getAgentCard();
  equal('name', card.name, 'demo');
  equal('description', card.description, 'conformance agent');
  equal('version', card.version, '1.0.0');
  equal('streaming', card.capabilities.streaming, true);
  equal('pushNotifications', card.capabilities.pushNotifications, true);
  const skills = card.skills.map((s) => [s.id, s.name, s.description, s.tags]);
  equal('skills', skills, [['demo', 'demo', 'demo', ['demo']]]);
  present('defaultInputModes', card.defaultInputModes);
  present('defaultOutputModes', card.defaultOutputModes);
  const offered = card.supportedInterfaces.filter((i) => i.protocolVersion.startsWith(peer.version));
  const urls = Object.fromEntries(offered.map((i) => [i.protocolBinding, i.url.replace(/\/$/, '')]));
  const want = { JSONRPC: peer.base, 'HTTP+JSON': peer.base, GRPC: peer.base.replace('http://', '') };
  equal(`urls offered as ${peer.version}`, Object.entries(urls).sort(), Object.entries(want).sort());
};

NEWER['discover-bare'] = async (peer) => {
  // The SDK's resolver names its version by itself; a `fetch` that drops the headers makes it forget.
  const cardResolver = new DefaultAgentCardResolver({ fetchImpl: (url) => fetch(url) });
  const client = await peer.factory({ cardResolver }).createFromUrl(peer.base);
  inState((await client.sendMessage(request(say('hello')))).status, TaskState.TASK_STATE_COMPLETED);
};

OLDER['discover-old-path'] = async (peer) => {
  const card = await peer.olderCard('', '/.well-known/agent.json');
  equal('name', card.name, 'demo');
  const client = await peer.factory().createFromAgentCard(card);
  inState((await client.sendMessage(request(say('hello')))).status, TaskState.TASK_STATE_COMPLETED);
};

OLDER['discover-agent'] = async (peer) => {
  const client = await plainAgent(peer);
  equal('name', (await client.getAgentCard()).name, 'plain');
  equal('who answered', textOf((await client.sendMessage(request(say('hello')))).status.message), 'plainly');
};

/** A client for the agent that neither streams nor pushes. */
async function plainAgent(peer) {
  const card = await peer.olderCard('/agents/plain');
  if (peer.binding === 'GRPC' && !card.supportedInterfaces.some((i) => i.protocolBinding === 'GRPC')) {
    throw new NotExpressible('0.3 cannot say which of the agents at one gRPC address is meant');
  }
  return peer.factory().createFromAgentCard(card);
}

OLDER['discover-address'] = async () => {
  throw new NotExpressible('the SDK starts from a card');
};

CASES['extended-card'] = async (peer) => {
  // The SDK asks only if the card declares an extended one, so the client is given a card that claims it.
  const card = structuredClone(await peer.client.getAgentCard());
  card.capabilities.extendedAgentCard = true;
  const client = await peer.factory().createFromAgentCard(card);
  if (peer.version === '1.0') {
    await refused(UnsupportedOperationError, () => client.getAgentCard());
  } else if (peer.binding === 'GRPC') {
    const shown = await client.getAgentCard().catch(() => undefined);
    if (shown) return equal('name', shown.name, 'demo');
  }
  await refused([UnsupportedOperationError, ExtendedAgentCardNotConfiguredError], () => client.getAgentCard());
};

// --- Sending and reading back ----------------------------------------------------------------------------------------

CASES['send-blocking'] = async (peer) => {
  const text = 'héllo wörld, ✓ 你好 🌊';
  const message = say(text);
  const task = await peer.sendForTask(message);
  present('id', task.id);
  present('contextId', task.contextId);
  inState(task.status, TaskState.TASK_STATE_COMPLETED);
  equal('status message', task.status.message, undefined);
  if (!(Math.abs(Date.parse(task.status.timestamp) - Date.now()) < 600_000)) {
    throw new Wrong(`status timestamp is not now: ${task.status.timestamp}`);
  }
  equal('artifacts', task.artifacts.map(textOf), [text]);
  present('artifactId', task.artifacts[0].artifactId);
  present('history', task.history);
  const kept = task.history[0];
  equal('messageId in history', kept.messageId, message.messageId);
  equal('role in history', kept.role, Role.ROLE_USER);
  equal('text in history', textOf(kept), text);
};

CASES['send-aggregate'] = async (peer) => {
  const task = await peer.sendForTask(say('stream, but in one reply'));
  inState(task.status, TaskState.TASK_STATE_COMPLETED, 'done');
  const artifacts = task.artifacts.map((a) => [a.artifactId, a.name, textOf(a)]);
  equal('artifacts', artifacts, [['a1', 'draft', 'part one part two']]);
  equal('taskId of the status message', task.status.message.taskId, task.id);
  equal('contextId of the status message', task.status.message.contextId, task.contextId);
};

NEWER['echo-parts'] = async (peer) => {
  const data = { n: 1, half: -0.5, big: 9007199254740991, none: null, on: true, empty: {}, list: ['ü', [], 1e-7] };
  const raw = Buffer.from(Array.from({ length: 256 }, (_, i) => i)).toString('base64');
  const message = say('hello', { metadata: { 'urn:example:note': { seen: [1, 2] } } });
  message.parts[0].metadata = { lang: 'en' };
  message.parts.push(
    { raw, filename: 'all bytes.bin', mediaType: 'application/octet-stream' },
    { url: 'https://example.com/ä?x=1&y=%20#z', filename: 'z.png', mediaType: 'image/png' },
    { data, mediaType: 'application/json' },
  );
  const sent = request(message).message;
  const task = await peer.sendForTask(message);
  inState(task.status, TaskState.TASK_STATE_COMPLETED);
  equal('artifacts', task.artifacts.length, 1);
  // By way of JSON, because the two decoders of the SDK differ in what class holds bytes.
  equal('parts', plain(task.artifacts[0].parts), plain(sent.parts));
  equal('message metadata in history', plain(task.history[0].metadata), plain(sent.metadata));
};

/** Sends a part to be echoed and checks that it comes back as it was. */
async function echoed(peer, part) {
  const message = say('hello', { parts: [{ text: 'hello' }, part] });
  const task = await peer.sendForTask(message);
  inState(task.status, TaskState.TASK_STATE_COMPLETED);
  equal('artifacts', task.artifacts.length, 1);
  equal('parts', plain(task.artifacts[0].parts), plain(request(message).message.parts));
}

OLDER['part-text'] = (peer) => echoed(peer, { text: 'héllo wörld, ✓ 你好 🌊' });

OLDER['part-bytes'] = (peer) => {
  const raw = Buffer.from(Array.from({ length: 256 }, (_, i) => i)).toString('base64');
  return echoed(peer, { raw, mediaType: 'application/octet-stream' });
};

OLDER['part-uri'] = (peer) =>
  echoed(peer, { url: 'https://example.com/ä?x=1&y=%20#z', mediaType: 'image/png' });

OLDER['part-data'] = (peer) =>
  echoed(peer, {
    data: { n: 1, half: -0.5, big: 9007199254740991, on: true, deep: { er: 'x' }, list: ['ü', [2], 1e-7] },
  });

OLDER['part-name'] = (peer) => {
  if (narrow(peer)) throw new NotExpressible("the SDK's protocol buffers for 0.3 have no names of files");
  return echoed(peer, { raw: 'AAEC/w==', filename: 'all bytes.bin', mediaType: 'application/octet-stream' });
};

OLDER['part-metadata'] = (peer) => {
  if (narrow(peer)) throw new NotExpressible("the SDK's protocol buffers for 0.3 have no metadata of parts");
  return echoed(peer, { text: 'hi', metadata: { lang: 'en' } });
};

OLDER['metadata'] = async (peer) => {
  const metadata = { 'urn:example:note': { seen: [1, 2] } };
  const sent = SendMessageRequest.fromJSON({
    message: say('hello', { metadata }),
    metadata: { 'urn:example:trace': 'abc' },
  });
  const task = await peer.client.sendMessage(sent);
  equal('metadata in history', plain(task.history[0].metadata), metadata);
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
  // The protocol buffers of 0.3 cannot tell nought from nothing.
  if (narrow(peer)) return;
  equal('history at 0', (await peer.get(asked.id, 0)).history.length, 0);
  equal('history of a reply at 0', (await peer.sendForTask(say('hello'), { historyLength: 0 })).history.length, 0);
  await refused(RequestMalformedError, () => peer.get(asked.id, -1));
};

OLDER['send-polling'] = async (peer) => {
  const open = [TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING];
  let task = await peer.sendForTask(say('soon'), { returnImmediately: true });
  if (!open.includes(task.status.state)) throw new Wrong(`state in the reply: ${TaskState[task.status.state]}`);
  while (open.includes(task.status.state)) {
    await sleep(100);
    task = await peer.get(task.id);
  }
  inState(task.status, TaskState.TASK_STATE_COMPLETED, 'it is done');
  equal('artifacts', task.artifacts.map(textOf), ['soon enough']);
};

CASES['return-immediately'] = async (peer) => {
  const started = Date.now();
  await peer.running('slow work', async (task) => {
    if (Date.now() - started > 4000) throw new Wrong('the reply was not immediate');
    if (![TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING].includes(task.status.state)) {
      throw new Wrong(`state in the reply: ${TaskState[task.status.state]}`);
    }
    let seen = await peer.get(task.id);
    while (seen.status.state === TaskState.TASK_STATE_SUBMITTED) {
      await sleep(50);
      seen = await peer.get(task.id);
    }
    inState(seen.status, TaskState.TASK_STATE_WORKING, 'working on it');
    inState((await peer.cancel(task.id)).status, TaskState.TASK_STATE_CANCELED);
    inState((await peer.get(task.id)).status, TaskState.TASK_STATE_CANCELED);
  });
};

CASES['direct-send'] = async (peer) => {
  const reply = await peer.send(say('direct please'));
  equal('is a task', 'status' in reply, false);
  equal('text', textOf(reply), 'just a message');
  equal('role', reply.role, Role.ROLE_AGENT);
  present('messageId', reply.messageId);
  present('contextId', reply.contextId);
  equal('taskId', reply.taskId, '');
};

CASES['failed'] = async (peer) => {
  inState((await peer.sendForTask(say('fail now'))).status, TaskState.TASK_STATE_FAILED, 'could not');
};

CASES['rejected'] = async (peer) => {
  inState((await peer.sendForTask(say('reject this'))).status, TaskState.TASK_STATE_REJECTED, 'will not');
};

CASES['file-parts'] = async (peer) => {
  const task = await peer.sendForTask(say('file me'));
  inState(task.status, TaskState.TASK_STATE_COMPLETED);
  equal('artifacts', task.artifacts.map((a) => a.artifactId), ['f', 'd', 'u']);
  const [raw, data, url] = task.artifacts.map((a) => a.parts[0]);
  equal('raw', [raw.content?.$case, [...raw.content.value]], ['raw', [0x00, 0x01, 0x02, 0xff]]);
  equal('raw type', raw.mediaType, 'application/octet-stream');
  if (!narrow(peer)) equal('raw name', raw.filename, 'a.bin');
  equal('data', plain(data.content), { $case: 'data', value: { n: 1, list: [1, 2], ok: true } });
  equal('url', plain(url.content), { $case: 'url', value: 'https://example.com/x.png' });
  equal('url type', url.mediaType, 'image/png');
};

// --- Streams ---------------------------------------------------------------------------------------------------------

CASES['stream'] = async (peer) => {
  const events = await peer.sendStreaming(say('stream it'));
  present('events', events);
  equal('first event', kinds(events)[0], 'task');
  const task = events[0].value;
  present('id', task.id);
  present('contextId', task.contextId);
  for (const { $case, value } of events.slice(1)) {
    const ids = [$case === 'task' ? value.id : value.taskId, value.contextId];
    equal('ids on an event', ids, [task.id, task.contextId]);
  }
  const spoken = events.filter(
    ({ $case, value }) => $case === 'artifactUpdate' || ($case === 'statusUpdate' && value.status.message),
  );
  const order = ['statusUpdate', 'artifactUpdate', 'artifactUpdate', 'statusUpdate'];
  equal('order of events', kinds(spoken), order);
  const [looking, one, two, done] = spoken.map((event) => event.value);
  inState(looking.status, TaskState.TASK_STATE_WORKING, 'looking');
  inState(done.status, TaskState.TASK_STATE_COMPLETED, 'done');
  const { artifactId, name } = one.artifact;
  equal('first chunk', [artifactId, name, textOf(one.artifact)], ['a1', 'draft', 'part one ']);
  equal('flags of the first chunk', [one.append, one.lastChunk], [false, false]);
  equal('second chunk', [two.artifact.artifactId, textOf(two.artifact)], ['a1', 'part two']);
  // Over the narrow bindings the SDK loses `append` on the way in.
  equal('flags of the second chunk', [narrow(peer) || two.append, two.lastChunk], [true, true]);
  inState(finalStatus(events), TaskState.TASK_STATE_COMPLETED);
  const stored = await peer.get(task.id);
  inState(stored.status, TaskState.TASK_STATE_COMPLETED, 'done');
  equal('stored artifact', stored.artifacts.map(textOf), ['part one part two']);
};

OLDER['stream-final'] = async () => {
  throw new NotExpressible('the SDK shows the events of 1.0, which have no `final`');
};

OLDER['stream-fallback'] = async (peer) => {
  const client = await plainAgent(peer);
  const events = await all(client.sendMessageStream(request(say('hello'))));
  equal('events', kinds(events), ['task']);
  inState(events[0].value.status, TaskState.TASK_STATE_COMPLETED, 'plainly');
};

CASES['stream-dropped'] = async (peer) => {
  let task;
  for await (const event of peer.client.sendMessageStream(request(say('slow, and nobody reads on')))) {
    task = event.payload.value;
    break;
  }
  present('id', task.id);
  try {
    await sleep(500);
    inState((await peer.get(task.id)).status, TaskState.TASK_STATE_WORKING, 'working on it');
  } finally {
    await peer.cancel(task.id);
  }
};

CASES['direct-stream'] = async (peer) => {
  const events = await peer.sendStreaming(say('direct please'));
  equal('events', kinds(events), ['message']);
  equal('text', textOf(events[0].value), 'just a message');
  equal('role', events[0].value.role, Role.ROLE_AGENT);
};

CASES['subscribe-cancel'] = async (peer) => {
  await peer.running('slow work', async (task) => {
    const follower = await follow(peer.subscribe(task.id)).opened();
    equal('first event', kinds(follower.events)[0], 'task');
    equal('id', follower.events[0].value.id, task.id);
    inState((await peer.cancel(task.id)).status, TaskState.TASK_STATE_CANCELED);
    inState(finalStatus(await follower.ended()), TaskState.TASK_STATE_CANCELED);
  });
};

CASES['subscribe-two'] = async (peer) => {
  const asked = await peer.sendForTask(say('book a table'));
  const followers = [];
  for (let i = 0; i < 2; i++) followers.push(await follow(peer.subscribe(asked.id)).opened());
  await peer.sendForTask(say('Tuesday', { taskId: asked.id }));
  const [one, two] = await Promise.all(followers.map((follower) => follower.ended()));
  equal('events of the second subscription', plain(two), plain(one));
};

CASES['subscribe-input'] = async (peer) => {
  const asked = await peer.sendForTask(say('book a table'));
  const follower = await follow(peer.subscribe(asked.id)).opened();
  equal('first event', kinds(follower.events)[0], 'task');
  inState(follower.events[0].value.status, TaskState.TASK_STATE_INPUT_REQUIRED, 'Which day?');
  await peer.sendForTask(say('Tuesday', { taskId: asked.id }));
  const events = await follower.ended();
  const artifacts = chunksOf(events).map(({ artifact }) => [artifact.artifactId, textOf(artifact)]);
  equal('artifacts', artifacts, [['booking', 'booked']]);
  inState(finalStatus(events), TaskState.TASK_STATE_COMPLETED);
};

CASES['subscribe-quiet'] = async (peer) => {
  await peer.running('slow work', async (task) => {
    const follower = await follow(peer.subscribe(task.id)).opened();
    await sleep(QUIET_SECONDS * 1000);
    await peer.cancel(task.id);
    inState(finalStatus(await follower.ended()), TaskState.TASK_STATE_CANCELED);
  });
};

CASES['subscribe-settled'] = async (peer) => {
  const task = await peer.sendForTask(say('hello'));
  await refused(UnsupportedOperationError, () => all(peer.subscribe(task.id)));
};

// --- More than one turn ----------------------------------------------------------------------------------------------

CASES['multi-turn'] = async (peer) => {
  const asked = await peer.sendForTask(say('book a table'));
  inState(asked.status, TaskState.TASK_STATE_INPUT_REQUIRED, 'Which day?');
  const done = await peer.sendForTask(say('Tuesday', { taskId: asked.id }));
  equal('ids', [done.id, done.contextId], [asked.id, asked.contextId]);
  inState(done.status, TaskState.TASK_STATE_COMPLETED, 'booked');
  equal('artifacts', done.artifacts.map((a) => [a.artifactId, textOf(a)]), [['booking', 'booked']]);
};

CASES['multi-turn-stream'] = async (peer) => {
  const first = await peer.sendStreaming(say('book a table'));
  equal('first event', kinds(first)[0], 'task');
  const asked = first[0].value;
  inState(finalStatus(first), TaskState.TASK_STATE_INPUT_REQUIRED, 'Which day?');
  const second = await peer.sendStreaming(say('Tuesday', { taskId: asked.id, contextId: asked.contextId }));
  equal('first event of the second turn', kinds(second)[0], 'task');
  equal('ids', [second[0].value.id, second[0].value.contextId], [asked.id, asked.contextId]);
  const artifacts = chunksOf(second).map(({ artifact }) => [artifact.artifactId, textOf(artifact)]);
  equal('artifacts', artifacts, [['booking', 'booked']]);
  inState(finalStatus(second), TaskState.TASK_STATE_COMPLETED, 'booked');
};

CASES['auth-required'] = async (peer) => {
  const asked = await peer.sendForTask(say('auth please'));
  inState(asked.status, TaskState.TASK_STATE_AUTH_REQUIRED, 'log in');
  const done = await peer.sendForTask(say('I did', { taskId: asked.id }));
  equal('id', done.id, asked.id);
  inState(done.status, TaskState.TASK_STATE_COMPLETED, 'in');
};

CASES['context-kept'] = async (peer) => {
  const chosen = `context-${randomUUID()}`;
  equal('contextId', (await peer.sendForTask(say('hello', { contextId: chosen }))).contextId, chosen);
};

OLDER['context-continued'] = async (peer) => {
  const first = await peer.sendForTask(say('hello'));
  const second = await peer.sendForTask(say('hello again', { contextId: first.contextId }));
  equal('contextId', second.contextId, first.contextId);
  if (second.id === first.id) throw new Wrong('the second message is in the first task');
};

CASES['context-mismatch'] = async (peer) => {
  const asked = await peer.sendForTask(say('book a table'));
  const { contextId } = await peer.sendForTask(say('hello'));
  await refused(RequestMalformedError, () => peer.send(say('Tuesday', { taskId: asked.id, contextId })));
  inState((await peer.get(asked.id)).status, TaskState.TASK_STATE_INPUT_REQUIRED);
};

// --- Refusals --------------------------------------------------------------------------------------------------------

CASES['cancel-settled'] = async (peer) => {
  const task = await peer.sendForTask(say('hello'));
  await refused(TaskNotCancelableError, () => peer.cancel(task.id));
};

CASES['get-unknown'] = (peer) => refused(TaskNotFoundError, () => peer.get(randomUUID()));

CASES['get-unknown-unicode'] = (peer) => refused(TaskNotFoundError, () => peer.get('tâche perdue ✗'));

CASES['cancel-unknown'] = (peer) => refused(TaskNotFoundError, () => peer.cancel(randomUUID()));

CASES['subscribe-unknown'] = (peer) => refused(TaskNotFoundError, () => all(peer.subscribe(randomUUID())));

OLDER['stream-unknown-task'] = (peer) =>
  refused(TaskNotFoundError, () => peer.sendStreaming(say('hello', { taskId: randomUUID() })));

OLDER['unknown-method'] = async () => {
  throw new NotExpressible('the SDK calls only what it knows');
};

CASES['send-settled'] = async (peer) => {
  const { id: taskId } = await peer.sendForTask(say('hello'));
  await refused(UnsupportedOperationError, () => peer.send(say('one more thing', { taskId })));
  await refused(UnsupportedOperationError, () => peer.sendStreaming(say('and another', { taskId })));
};

CASES['send-unknown-task'] = (peer) =>
  refused(TaskNotFoundError, () => peer.send(say('hello', { taskId: randomUUID() })));

// The SDK folds the JSON-RPC codes for malformed input and for invalid params into one class.
CASES['send-no-parts'] = (peer) => refused(RequestMalformedError, () => peer.send(say('', { parts: [] })));

CASES['extensions-header'] = async (peer) => {
  const uris = ['https://example.com/ext/unknown/v1', 'urn:example:other'];
  const options = { serviceParameters: ServiceParameters.create(withA2AExtensions(...uris)) };
  inState((await peer.send(say('hello'), {}, options)).status, TaskState.TASK_STATE_COMPLETED);
  inState(finalStatus(await peer.sendStreaming(say('hello'), options)), TaskState.TASK_STATE_COMPLETED);
};

NEWER['version-refused'] = async (peer) => {
  // The client overwrites any A2A-Version its caller sets, but its interceptors have the last word.
  const claim = {
    before: async (args) => {
      args.options.serviceParameters['A2A-Version'] = '9.9';
    },
    after: async () => {},
  };
  const client = await peer.factory({ clientConfig: { interceptors: [claim] } }).createFromUrl(peer.base);
  await refused(VersionNotSupportedError, () => client.sendMessage(request(say('hello'))));
};

// --- Lists -----------------------------------------------------------------------------------------------------------

/** Five tasks in a context of their own: three completed, one waiting for input, one failed. */
async function populate(peer) {
  const { id, contextId } = await peer.sendForTask(say('hello 1'));
  const ids = [id];
  for (const text of ['hello 2', 'book a table', 'fail now', 'hello 3']) {
    ids.push((await peer.sendForTask(say(text, { contextId }))).id);
  }
  return { contextId, ids };
}

NEWER['list-pages'] = async (peer) => {
  const { contextId, ids } = await populate(peer);
  const seen = [];
  const sizes = [];
  let pageToken = '';
  do {
    const page = await peer.list({ contextId, pageSize: 2, pageToken });
    equal('totalSize', page.totalSize, ids.length);
    equal('pageSize', page.pageSize, 2);
    sizes.push(page.tasks.length);
    seen.push(...page.tasks);
    pageToken = page.nextPageToken;
  } while (pageToken && sizes.length <= ids.length);
  equal('tasks per page', sizes, [2, 2, 1]);
  equal('ids', seen.map((task) => task.id).sort(), [...ids].sort());
  const times = seen.map((task) => Date.parse(task.status.timestamp));
  equal('order, newest first', times, [...times].sort((a, b) => b - a));
};

NEWER['list-status'] = async (peer) => {
  const { contextId, ids } = await populate(peer);
  const done = await peer.list({ contextId, status: 'TASK_STATE_COMPLETED' });
  equal('completed', done.tasks.map((task) => task.id).sort(), [ids[0], ids[1], ids[4]].sort());
  equal('totalSize', done.totalSize, 3);
  const waiting = await peer.list({ contextId, status: 'TASK_STATE_INPUT_REQUIRED' });
  equal('waiting', waiting.tasks.map((task) => task.id), [ids[2]]);
  const none = await peer.list({ contextId, status: 'TASK_STATE_CANCELED' });
  equal('canceled', [none.tasks.length, none.totalSize, none.nextPageToken], [0, 0, '']);
};

NEWER['list-since'] = async (peer) => {
  const { contextId } = await populate(peer);
  const everything = (await peer.list({ contextId })).tasks;
  const since = everything[2].status.timestamp;
  // To the millisecond: the SDK carries no finer time over gRPC.
  const want = everything.filter((task) => Date.parse(task.status.timestamp) >= Date.parse(since));
  const some = await peer.list({ contextId, statusTimestampAfter: since });
  equal('ids', some.tasks.map((task) => task.id), want.map((task) => task.id));
  equal('totalSize', some.totalSize, want.length);
};

NEWER['list-artifacts'] = async (peer) => {
  const { contextId, ids } = await populate(peer);
  const none = ids.map(() => 0);
  const brief = await peer.list({ contextId });
  equal('artifacts when not asked for', brief.tasks.map((task) => task.artifacts.length), none);
  const full = await peer.list({ contextId, includeArtifacts: true, historyLength: 0 });
  const texts = new Map(full.tasks.map((task) => [task.id, task.artifacts.map(textOf)]));
  const want = [['hello 1'], ['hello 2'], [], [], ['hello 3']];
  equal('artifacts when asked for', ids.map((id) => texts.get(id)), want);
  equal('history at 0', full.tasks.map((task) => task.history.length), none);
};

NEWER['list-invalid'] = async (peer) => {
  if (peer.binding === 'GRPC') {
    // The SDK for Go always writes the field, so 0 means that the caller asks for no size.
    equal('tasks on a page of no size', (await peer.list({ pageSize: 0 })).tasks.length > 0, true);
  } else {
    await refused(RequestMalformedError, () => peer.list({ pageSize: 0 }));
  }
  await refused(RequestMalformedError, () => peer.list({ pageSize: -1 }));
  await refused(RequestMalformedError, () => peer.list({ pageSize: 101 }));
  await refused(RequestMalformedError, () => peer.list({ pageToken: 'not a token' }));
};

// --- Push configurations ---------------------------------------------------------------------------------------------

function createHook(peer, taskId, fields = {}) {
  const config = TaskPushNotificationConfig.fromJSON({ taskId, url: HOOK, ...fields });
  return peer.client.createTaskPushNotificationConfig(config);
}

function getHook(peer, taskId, id) {
  return peer.client.getTaskPushNotificationConfig({ tenant: '', taskId, id });
}

async function hooks(peer, taskId) {
  const query = ListTaskPushNotificationConfigsRequest.fromJSON({ taskId });
  return (await peer.client.listTaskPushNotificationConfig(query)).configs;
}

function deleteHook(peer, taskId, id) {
  return peer.client.deleteTaskPushNotificationConfig({ tenant: '', taskId, id });
}

NEWER['push-create'] = (peer) =>
  peer.running('book a table', async (task) => {
    const authentication = { scheme: 'Bearer', credentials: 'secret' };
    const made = await createHook(peer, task.id, { token: 'tok', authentication });
    present('id', made.id);
    equal('created', [made.taskId, made.url, made.authentication?.scheme], [task.id, HOOK, 'Bearer']);
    equal('id chosen by the client', (await createHook(peer, task.id, { id: 'mine' })).id, 'mine');
    const got = await getHook(peer, task.id, made.id);
    equal('got', [got.id, got.taskId, got.url], [made.id, task.id, HOOK]);
    equal('listed', (await hooks(peer, task.id)).map((c) => c.id).sort(), [made.id, 'mine'].sort());
  });

OLDER['push-set'] = (peer) =>
  peer.running('book a table', async (task) => {
    const authentication = { scheme: 'Bearer', credentials: 'secret' };
    const made = await createHook(peer, task.id, { id: 'mine', token: 'tok', authentication });
    equal('set', [made.taskId, made.id, made.url], [task.id, 'mine', HOOK]);
    const got = await getHook(peer, task.id, 'mine');
    // Not the token: a server may keep secrets to itself.
    equal('got', [got.taskId, got.id, got.url], [task.id, 'mine', HOOK]);
    equal('scheme', got.authentication?.scheme, 'Bearer');
  });

OLDER['push-list'] = (peer) =>
  peer.running('book a table', async (task) => {
    for (const id of ['one', 'two']) await createHook(peer, task.id, { id });
    equal('listed', (await hooks(peer, task.id)).map((c) => c.id).sort(), ['one', 'two']);
  });

CASES['push-delete'] = (peer) =>
  peer.running('book a table', async (task) => {
    // Without an id of its own a config of 0.3 replaces the one before.
    const first = await createHook(peer, task.id, { id: 'first' });
    const second = await createHook(peer, task.id, { id: 'second' });
    await deleteHook(peer, task.id, first.id);
    equal('left after deletion', (await hooks(peer, task.id)).map((c) => c.id), [second.id]);
    await refused(TaskNotFoundError, () => getHook(peer, task.id, first.id));
    await deleteHook(peer, task.id, first.id);
  });

CASES['push-inline'] = (peer) =>
  peer.running(
    'book a table',
    async (task) => {
      equal('listed', (await hooks(peer, task.id)).map((c) => [c.taskId, c.url]), [[task.id, HOOK]]);
    },
    { taskPushNotificationConfig: { id: 'inline', url: HOOK, token: 'tok' } },
  );

OLDER['push-unsupported'] = async (peer) => {
  const client = await plainAgent(peer);
  const task = await client.sendMessage(request(say('hello')));
  const config = TaskPushNotificationConfig.fromJSON({ taskId: task.id, id: 'mine', url: HOOK });
  await refused(PushNotificationNotSupportedError, async () => client.createTaskPushNotificationConfig(config));
};

CASES['push-unknown'] = async (peer) => {
  await peer.running('book a table', (task) => refused(TaskNotFoundError, () => getHook(peer, task.id, 'nothing')));
  await refused(TaskNotFoundError, () => createHook(peer, randomUUID()));
};

await run({
  make: (...given) => new Peer(...given),
  bindings: BINDINGS,
  cases: { '1.0': { ...CASES, ...NEWER }, 0.3: { ...CASES, ...OLDER } },
});
