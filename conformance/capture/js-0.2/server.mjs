// A server made with @a2a-js/sdk 0.2, over JSON-RPC.
//
//     server.mjs --http PORT --grpc PORT --public URL --public-grpc HOST:PORT [--bare]

import express from 'express';
import { A2AExpressApp, DefaultRequestHandler, InMemoryTaskStore } from '@a2a-js/sdk/server';
import { canceled, card, options, play } from './agent.mjs';

const settings = options();
const held = new Map();

const executor = {
  async execute({ userMessage, taskId, contextId }, bus) {
    const hold = new Promise((resolve) => held.set(taskId, { resolve, contextId }));
    const text = userMessage.parts.find((part) => part.kind === 'text').text;
    for await (const event of play(text, taskId, contextId, userMessage, hold)) bus.publish(event);
    bus.finished();
  },
  async cancelTask(taskId, bus) {
    const { resolve, contextId } = held.get(taskId);
    bus.publish(canceled(taskId, contextId));
    resolve();
  },
};

const agentCard = card(settings);
// What 0.2 does not have yet.
delete agentCard.securitySchemes.mtls;
delete agentCard.skills[0].security;
delete agentCard.additionalInterfaces;
agentCard.protocolVersion = '0.2.5';
const handler = new DefaultRequestHandler(agentCard, new InMemoryTaskStore(), executor);

// Twice, because the card is always below the endpoint, and a client looks for it below the host.
const app = express();
new A2AExpressApp(handler).setupRoutes(app, '/rpc');
new A2AExpressApp(handler).setupRoutes(app, '');
app.listen(settings.http, '127.0.0.1');
