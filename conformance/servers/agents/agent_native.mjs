// The A2A server of agent-native, mounted on a bare h3 app.
//
//     agent_native.mjs --http PORT [--secret SECRET] [--key KEY] [--short]
//
// `--secret` makes it a production server that wants a JWT, `--key` one that wants a key. `--short` has it answer at
// `/a2a` and nowhere else, without a card, so that only a client that tries that path finds it.
// The framework would mount its other plugins as well, and with them a model, a login and a web application. They are
// told to be there already.

import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { options } from './behaviour.mjs';

const settings = options();
process.env.DATABASE_URL = `file:${join(mkdtempSync(join(tmpdir(), 'agent-native-')), 'tasks.db')}`;
// Else it takes itself for https, and no token made for this address fits.
process.env.APP_URL = settings.base;
if (settings.has('--secret')) process.env.A2A_SECRET = settings.value('--secret');
if (settings.has('--key')) process.env.TEST_API_KEY = settings.value('--key');
// In production a key alone is no good: the server would have nothing to sign its orders to itself with.
if (settings.has('--secret')) process.env.NODE_ENV = 'production';

const { H3, HTTPError, serve } = await import('h3');
const { mountA2A } = await import('@agent-native/core/a2a');
const inside = new URL('../node_modules/@agent-native/core/dist/', import.meta.url);
const { markDefaultPluginProvided } = await import(new URL('server/framework-request-handler.js', inside));
const { DEFAULT_PLUGIN_REGISTRY } = await import(new URL('deploy/route-discovery.js', inside));

const text = (said, more = {}) => ({ role: 'agent', parts: [{ type: 'text', text: said }], ...more });

async function* chunks(count) {
  for (let number = 1; number <= count; number += 1) {
    await sleep(300);
    yield text(`chunk ${number}`);
  }
}

async function reply(word, rest, whole, context) {
  if (word === 'fail') throw new Error('it did not work');
  if (word === 'ask') return { message: text('Which city?'), taskState: 'input-required' };
  if (word === 'hold') {
    await sleep(60_000);
    return { message: text('not canceled') };
  }
  if (word !== 'files') return { message: text(word === 'echo' ? rest : whole) };
  context.writeArtifact('report.md', '# Report\n', 'text/markdown');
  return {
    message: {
      role: 'agent',
      parts: [
        { type: 'text', text: 'one of each' },
        { type: 'file', file: { name: 'hello.txt', mimeType: 'text/plain', bytes: 'aGVsbG8/Pj4+' } },
        { type: 'file', file: { uri: 'https://files.example/paper.pdf' } },
        { type: 'data', data: { count: 3, list: [1, 'two', null, true] } },
      ],
    },
  };
}

// The stream handler writes to Node's response itself; a bare h3 app then adds to what has ended already.
process.on('uncaughtException', (error) => {
  if (error.code !== 'ERR_STREAM_WRITE_AFTER_END') throw error;
});

const app = new H3();
if (settings.has('--short')) {
  app.use((event) => {
    // What the server posts to itself to have an async task run has a fixed path below this one.
    const gone = ['/.well-known/agent-card.json', '/_agent-native/a2a'];
    if (gone.includes(event.url.pathname)) throw new HTTPError({ status: 404, message: 'Not found' });
  });
}
const nitroApp = { h3: app };
for (const stem of Object.keys(DEFAULT_PLUGIN_REGISTRY)) markDefaultPluginProvided(nitroApp, stem);
const config = {
  name: 'Agent-native',
  description: 'An agent of the tests on agent-native',
  version: '1.0.0',
  skills: [{ id: 'play', name: 'Play', description: 'Does what the first word says', tags: ['test'] }],
  streaming: true,
  ...(settings.has('--key') && { apiKeyEnv: 'TEST_API_KEY' }),
  handler(message, context) {
    const whole = message.parts.find((part) => part.type === 'text')?.text ?? '';
    const [, word, rest] = whole.trim().match(/^(\S*) ?(.*)$/s);
    return word === 'slow' ? chunks(Number(rest || 3)) : reply(word, rest, whole, context);
  },
};
mountA2A(nitroApp, config);
if (settings.has('--short')) mountA2A(nitroApp, config, '');
serve(app, { port: settings.http, hostname: '127.0.0.1', silent: true });
