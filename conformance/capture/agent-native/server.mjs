// The A2A server of agent-native, mounted on a bare h3 app, with an agent that plays a few words.
//
//     server.mjs --http PORT --grpc PORT --public URL --public-grpc HOST:PORT [--bare]
//
// The framework would mount its other plugins as well, and with them a model, a login and a web application. They are
// told to be there already. `--bare` is a deployment that refuses: no streaming, and production without a secret.

import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { options } from './agent.mjs';

const settings = options();
process.env.DATABASE_URL = `file:${join(mkdtempSync(join(tmpdir(), 'agent-native-')), 'tasks.db')}`;
process.env.CAPTURE_API_KEY = 'static-key';
if (settings.bare) {
  process.env.NODE_ENV = 'production';
  delete process.env.CAPTURE_API_KEY;
} else {
  process.env.A2A_SECRET = 'capture-secret';
  // Else it takes itself for https, and no token made for this address fits.
  process.env.APP_URL = settings.public;
}

const { H3, serve } = await import('h3');
const { mountA2A } = await import('@agent-native/core/a2a');
const inside = new URL('./node_modules/@agent-native/core/dist/', import.meta.url);
const { markDefaultPluginProvided } = await import(new URL('server/framework-request-handler.js', inside));
const { DEFAULT_PLUGIN_REGISTRY } = await import(new URL('deploy/route-discovery.js', inside));

const text = (said, metadata) => ({ role: 'agent', parts: [{ type: 'text', text: said }], ...(metadata && { metadata }) });

async function* stream() {
  yield text('Looking it up');
  await sleep(50);
  yield text('Still looking');
  await sleep(50);
  yield text('Done', { source: 'capture' });
}

async function reply(word, context) {
  if (word === 'slow') await sleep(1500);
  if (word === 'crash') throw new Error('the agent fell over');
  if (word === 'ask') return { message: text('Which city?'), taskState: 'input-required' };
  if (word !== 'parts') return { message: text('Hello, Grüße 世界 🌍') };
  context.writeArtifact('report.md', '# Report\n', 'text/markdown');
  return {
    message: {
      role: 'agent',
      parts: [
        { type: 'text', text: 'One of each' },
        { type: 'file', file: { name: 'hello.txt', mimeType: 'text/plain', bytes: 'aGVsbG8/Pj4+' } },
        { type: 'file', file: { uri: 'https://files.example/paper.pdf' } },
        { type: 'data', data: { count: 3, list: [1, 'two', null, true] } },
      ],
    },
    artifacts: [{
      name: 'everything',
      description: 'One part of each kind',
      parts: [{ type: 'data', data: { count: 3 } }, { type: 'file', file: { uri: 'https://files.example/a' } }],
      metadata: { pages: 12 },
    }],
  };
}

// The stream handler writes to Node's response itself; a bare h3 app then adds to what has ended already.
process.on('uncaughtException', (error) => {
  if (error.code !== 'ERR_STREAM_WRITE_AFTER_END') throw error;
});

const app = new H3();
const nitroApp = { h3: app };
for (const stem of Object.keys(DEFAULT_PLUGIN_REGISTRY)) markDefaultPluginProvided(nitroApp, stem);
mountA2A(nitroApp, {
  name: 'Capture',
  description: 'Plays a few words',
  version: '1.2.3',
  skills: [
    { id: 'play', name: 'Play', description: 'Plays a few words', tags: ['test'], examples: ['task'] },
    { id: 'hidden', name: 'Hidden', description: 'Not for everybody', requiresAuth: true },
  ],
  authenticatedSkills: [{
    id: 'read', name: 'Read', description: 'Reads a thing', requiresAuth: true, readOnly: true,
    inputSchema: { type: 'object', properties: { key: { type: 'string' } } },
  }],
  apiKeyEnv: 'CAPTURE_API_KEY',
  streaming: !settings.bare,
  handler(message, context) {
    const word = message.parts.find((part) => part.type === 'text')?.text.split(' ')[0];
    return word === 'stream' ? stream() : reply(word, context);
  },
  executeReadOnlyAction: async ({ action, input }) => ({ status: 'completed', output: JSON.stringify({ action, input }) }),
});
serve(app, { port: settings.http, hostname: '127.0.0.1', silent: true });
