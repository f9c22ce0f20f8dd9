// A server made with @a2a-js/sdk 0.3, on all three bindings.
//
//     server.mjs --http PORT --grpc PORT --public URL --public-grpc HOST:PORT [--bare]

import express from 'express';
import { Server, ServerCredentials } from '@grpc/grpc-js';
import {
  DefaultExecutionEventBusManager, DefaultPushNotificationSender, DefaultRequestHandler, InMemoryPushNotificationStore,
  InMemoryTaskStore,
} from '@a2a-js/sdk/server';
import { agentCardHandler, jsonRpcHandler, restHandler, UserBuilder } from '@a2a-js/sdk/server/express';
import { A2AService, grpcService } from '@a2a-js/sdk/server/grpc';
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
const store = settings.bare ? undefined : new InMemoryPushNotificationStore();
const requestHandler = new DefaultRequestHandler(
  agentCard,
  new InMemoryTaskStore(),
  executor,
  new DefaultExecutionEventBusManager(),
  store,
  store && new DefaultPushNotificationSender(store),
  settings.bare ? undefined : { ...agentCard, description: 'The extended card' },
);
const userBuilder = UserBuilder.noAuthentication;

const app = express();
app.use('/.well-known/agent-card.json', agentCardHandler({ agentCardProvider: requestHandler }));
app.use('/rpc', jsonRpcHandler({ requestHandler, userBuilder }));
app.use('/rest', restHandler({ requestHandler, userBuilder }));

const server = new Server();
server.addService(A2AService, grpcService({ requestHandler, userBuilder }));
server.bindAsync(`127.0.0.1:${settings.grpc}`, ServerCredentials.createInsecure(), () => {
  app.listen(settings.http, '127.0.0.1');
});
