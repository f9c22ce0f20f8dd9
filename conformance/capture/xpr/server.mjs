// A stand-in for the runner, which is on no registry: answers so that the client goes on. Nothing it says is kept.
//
//     server.mjs --http PORT --grpc PORT --public URL --public-grpc HOST:PORT

import { createServer } from 'node:http';
import { options } from './agent.mjs';

const task = (id, state) => ({ id, status: { state, timestamp: new Date().toISOString() } });

createServer(async (request, response) => {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const body = Buffer.concat(chunks).toString();
  const { id, method, params } = body ? JSON.parse(body) : {};
  const state = method === 'tasks/cancel' ? 'canceled' : 'completed';
  const answer = method ? { jsonrpc: '2.0', id, result: task(params.id ?? 'task-1', state) } : { name: 'Stand-in' };
  response.setHeader('Content-Type', 'application/json');
  response.end(JSON.stringify(answer));
}).listen(options().http, '127.0.0.1');
