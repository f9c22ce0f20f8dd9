// The words the JavaScript clients are written in: checks, and the line that reports each case.
//
// A client keeps its cases in an object, by the names they have in `cases/`, describes its SDK with a class of peers,
// one for each binding, and hands both to `run`. What it prints is what the runner reads: outcome, binding, case and
// reason, separated by tabs. The outcome is `ok`, `FAIL`, or `n/a` when the SDK cannot express the operation. Clients
// exit with 0 even when cases fail; the runner counts.

import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual, parseArgs } from 'node:util';

// Longer than anything a case waits for on purpose, so that only a server that hangs meets it.
const CASE_SECONDS_MAX = 25;
// As long as in the Python clients, which give up after five silent seconds; these SDKs would wait for minutes.
export const QUIET_SECONDS = 7;
// Port 9 discards: the hook is only ever stored and looked up, nobody listens.
export const HOOK = 'http://127.0.0.1:8009/hook';

/** The server answered, but not what it promised. */
export class Wrong extends Error {}

/** The SDK's client has no way to ask for this. */
export class NotExpressible extends Error {}

// --- Checks ----------------------------------------------------------------------------------------------------------

export function equal(what, got, want) {
  if (!isDeepStrictEqual(got, want)) throw new Wrong(`${what}: got ${short(got)}, want ${short(want)}`);
}

export function present(what, got) {
  if (!got || got.length === 0) throw new Wrong(`${what} is missing`);
}

/** A value by way of JSON, which knows neither classes nor `undefined`. */
export function plain(value) {
  return JSON.parse(JSON.stringify(value));
}

/** Checks that a call fails with this error, or with one of these; `same` says whether an error is the wanted one. */
export async function refused(wanted, call, same = (error, one) => error instanceof one) {
  const list = [wanted].flat();
  const names = list.map((one) => one.name ?? String(one)).join(' or ');
  let result;
  try {
    result = await call();
  } catch (other) {
    if (list.some((one) => same(other, one))) return;
    if (other instanceof NotExpressible) throw other;
    throw new Wrong(`expected ${names}, got ${describe(other)}`);
  }
  throw new Wrong(`expected ${names}, got an answer: ${short(result)}`);
}

export function short(value) {
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return String(text).replace(/\s+/g, ' ').slice(0, 200);
}

export function describe(error) {
  const cause = error.cause ? ` (cause: ${error.cause.name}: ${error.cause.message})` : '';
  return short(`${error.name}: ${error.message}${cause}`);
}

/** A stream read in the background. */
export class Follower {
  constructor(stream) {
    this.events = [];
    this.first = new Promise((resolve) => (this.opening = resolve));
    this.reading = this.read(stream);
    // Whoever waits for the end sees the failure; until then it must not bring the process down.
    this.reading.catch(() => {});
  }

  async read(stream) {
    try {
      for await (const event of stream) {
        this.events.push(event);
        this.opening();
      }
    } finally {
      this.opening();
    }
  }

  async opened() {
    await this.first;
    if (this.events.length === 0) await this.reading;
    return this;
  }

  async ended() {
    await this.reading;
    return this.events;
  }
}

// --- Running ---------------------------------------------------------------------------------------------------------

function report(outcome, binding, name, reason = '') {
  process.stdout.write(`${[outcome, binding, name, reason].join('\t')}\n`);
}

async function inTime(work) {
  const alarm = new AbortController();
  const late = sleep(CASE_SECONDS_MAX * 1000, undefined, { signal: alarm.signal }).then(() => {
    throw new Wrong(`no result within ${CASE_SECONDS_MAX} s`);
  });
  late.catch(() => {});
  try {
    await Promise.race([work, late]);
  } finally {
    alarm.abort();
  }
}

async function runBinding(peer, cases) {
  try {
    await inTime(peer.connect());
  } catch (error) {
    for (const [name] of cases) report('FAIL', peer.binding, name, `no client could be made: ${describe(error)}`);
    return;
  }
  for (const [name, check] of cases) {
    try {
      await inTime(check(peer));
      report('ok', peer.binding, name);
    } catch (error) {
      if (error instanceof NotExpressible) report('n/a', peer.binding, name, error.message);
      else if (error instanceof Wrong) report('FAIL', peer.binding, name, short(error.message));
      else report('FAIL', peer.binding, name, describe(error));
    }
  }
}

/**
 * Runs the cases on the command line's server. `make` is called with a base URL, a binding and a version; `cases` has
 * an object of cases for each version the SDK speaks, the first of which is the default.
 */
export async function run({ make, bindings, cases }) {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      speak: { type: 'string', default: Object.keys(cases)[0] },
      binding: { type: 'string', multiple: true },
      case: { type: 'string', multiple: true },
    },
  });
  const base = positionals[0].replace(/\/$/, '');
  const chosen = Object.entries(cases[values.speak]).filter(([name]) => values.case?.includes(name) ?? true);
  // A stray failure in the background belongs to whichever case is running; it must not end the others.
  process.on('unhandledRejection', (error) => console.error('unhandled:', describe(error)));
  // Side by side, because the quiet streams would otherwise add up, and because servers have more than one caller.
  const peers = (values.binding ?? bindings).map((binding) => make(base, binding, values.speak));
  await Promise.all(peers.map((peer) => runBinding(peer, chosen)));
  // Kept-alive connections would hold the process open. An empty write tells when everything before it has gone out.
  process.stdout.write('', () => process.exit(0));
}
