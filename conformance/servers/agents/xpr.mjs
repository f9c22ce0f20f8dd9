// A server as the runner of the XPR agents is one, which is on no registry. Written by hand after its routes, order of
// checks and answers; signatures are checked by the SDK's own function.
//
//     xpr.mjs --http PORT [--signed]
//
// `--signed` wants the three headers, signed with the key of the account `alice`, which every development chain of this
// family is delivered with. Without it anybody may call, as with A2A_AUTH_REQUIRED=false.
//
// The words are those of the other agents as far as a task here can show them: it is always completed, and the answer
// is in the first artifact. `fail` is an internal error that leaves the task working; `hold` works for a minute.

import { createHash } from 'node:crypto';
import { createServer } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import sdk from '@xpr-agents/sdk';
import { options } from './behaviour.mjs';

const settings = options();
const KEYS = { alice: ['PUB_K1_6MRyAjQq8ud7hVNYcfnVPJqcVpscN5So8BhtHuGYqET5BoDq63'] };
const WINDOW_SECONDS = 300;
const BODY_BYTES_MAX = 1024 * 1024;
const tasks = new Map();
let made = 0;

const CARD = {
  name: 'XPR',
  description: 'An agent of the tests that speaks XPR',
  url: settings.base,
  version: '1.0.0',
  capabilities: { streaming: false, pushNotifications: false, stateTransitionHistory: false },
  defaultInputModes: ['text'],
  defaultOutputModes: ['text'],
  skills: [{ id: 'play', name: 'play', description: 'play capability', tags: ['play'] }],
  'xpr:account': 'testagent',
  'xpr:protocol': 'https',
  'xpr:trustScore': 76,
  'xpr:kycLevel': 2,
  'xpr:registeredAt': 1704067200,
  'xpr:owner': 'carol',
};

class Refused extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

/** The account that calls. */
function caller(headers, body) {
  const [account, time, signature] = ['account', 'timestamp', 'signature'].map((name) => headers[`x-xpr-${name}`]);
  if (!settings.has('--signed') && !signature) return account || 'anonymous';
  if (!account || !time || !signature) {
    const names = 'X-XPR-Account, X-XPR-Timestamp, and X-XPR-Signature';
    throw new Refused(-32000, `Authentication required: ${names} headers are required`);
  }
  const seconds = Number.parseInt(time, 10);
  if (Number.isNaN(seconds)) throw new Refused(-32000, 'Invalid X-XPR-Timestamp: must be a Unix timestamp');
  if (Math.abs(Math.floor(Date.now() / 1000) - seconds) > WINDOW_SECONDS) {
    throw new Refused(-32000, `Request timestamp too far from server time (window: ${WINDOW_SECONDS}s)`);
  }
  let key;
  try {
    const hash = createHash('sha256').update(body).digest('hex');
    key = String(sdk.recoverA2APublicKey(signature, account, seconds, hash));
  } catch {
    throw new Refused(-32000, 'Invalid signature: could not recover public key');
  }
  if (!KEYS[account]?.includes(key)) {
    const whose = `any active key for account '${account}'`;
    throw new Refused(-32000, `Signature verification failed: recovered key does not match ${whose}`);
  }
  return account;
}

function settle(task, state) {
  task.status = { state, timestamp: new Date().toISOString() };
  return task;
}

async function work(text) {
  const [, word, rest] = text.match(/^(\S*) ?(.*)$/s);
  if (word === 'fail') throw new Error('it did not work');
  if (word === 'slow') await sleep(300 * Number(rest || 3));
  if (word === 'hold') await sleep(60_000);
  if (word === 'slow') return Array.from({ length: Number(rest || 3) }, (_, index) => `chunk ${index + 1} `).join('');
  return word === 'echo' ? rest : text;
}

async function send(params, owner) {
  if (!params?.message?.parts) throw new Refused(-32602, 'Invalid params: message with parts is required');
  const id = params.id ?? `task-${(made += 1)}`;
  if (tasks.has(id) && tasks.get(id).owner !== owner) {
    throw new Refused(-32000, `Task ID '${id}' is owned by another account`);
  }
  const task = { id, owner, ...(params.contextId && { contextId: params.contextId }) };
  settle(task, 'working');
  if (params.metadata) task.metadata = params.metadata;
  task.createdAt = Date.now();
  tasks.set(id, task);
  const texts = params.message.parts.filter((part) => part.type === 'text').map((part) => part.text);
  const answer = await work(texts.join('\n') || 'No text content');
  settle(task, 'completed');
  task.artifacts = [{ parts: [{ type: 'text', text: answer }], index: 0 }];
  return task;
}

function find(params, owner) {
  if (!params?.id) throw new Refused(-32602, 'Invalid params: id is required');
  const task = tasks.get(params.id);
  if (!task || task.owner !== owner) throw new Refused(-32001, `Task not found: ${params.id}`);
  return task;
}

function cancel(task) {
  if (['completed', 'failed'].includes(task.status.state)) {
    throw new Refused(-32002, `Task already ${task.status.state}`);
  }
  return settle(task, 'canceled');
}

async function answer(headers, body) {
  if (!body.length || !headers['content-type']?.startsWith('application/json')) {
    return { jsonrpc: '2.0', id: null, error: { code: -32700, message: 'Parse error: missing request body' } };
  }
  const { jsonrpc, id, method, params } = JSON.parse(body);
  const reply = (rest) => ({ jsonrpc: '2.0', ...(id !== undefined && { id }), ...rest });
  if (jsonrpc !== '2.0' || !method) {
    const message = 'Invalid request: must be JSON-RPC 2.0 with a method';
    return { ...reply({ error: { code: -32600, message } }), id: id ?? null };
  }
  try {
    const owner = caller(headers, body);
    if (method === 'message/send') return reply({ result: await send(params, owner) });
    if (method === 'tasks/get') return reply({ result: find(params, owner) });
    if (method === 'tasks/cancel') return reply({ result: cancel(find(params, owner)) });
    throw new Refused(-32601, `Method not found: ${method}`);
  } catch (error) {
    return reply({ error: { code: error.code ?? -32603, message: error.message } });
  }
}

function page(response, status, text) {
  response.writeHead(status, { 'Content-Type': 'text/html; charset=utf-8' });
  response.end(`<!DOCTYPE html><html><body><pre>${text}</pre></body></html>`);
}

function json(response, value) {
  response.setHeader('Content-Type', 'application/json; charset=utf-8');
  response.end(JSON.stringify(value));
}

createServer(async (request, response) => {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const body = Buffer.concat(chunks);
  if (request.method === 'GET' && request.url === '/.well-known/agent.json') return json(response, CARD);
  if (request.method !== 'POST' || request.url !== '/a2a') {
    return page(response, 404, `Cannot ${request.method} ${request.url}`);
  }
  if (body.length > BODY_BYTES_MAX) return page(response, 413, 'PayloadTooLargeError');
  try {
    return json(response, await answer(request.headers, body));
  } catch {
    return page(response, 400, 'SyntaxError');
  }
}).listen(settings.http, '127.0.0.1');
