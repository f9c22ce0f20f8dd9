// A server made with @a2a-js/sdk 1.x, with its 0.3 layer switched on, on all three bindings.
//
//     server.mjs --http PORT --grpc PORT --public URL --public-grpc HOST:PORT [--bare]

import { readFileSync } from 'node:fs';
import express from 'express';
import { Server, ServerCredentials } from '@grpc/grpc-js';
import { AgentCard } from '@a2a-js/sdk';
import {
  DefaultExecutionEventBusManager, DefaultRequestHandler, InMemoryPushNotificationStore, InMemoryTaskStore,
} from '@a2a-js/sdk/server';
import { agentCardHandler, jsonRpcHandler, restHandler, UserBuilder } from '@a2a-js/sdk/server/express';
import { A2AService, grpcService } from '@a2a-js/sdk/server/grpc';
import { createLegacyAwarePushNotificationSender } from '@a2a-js/sdk/compat/v0_3/server';
import { LegacyA2AService, legacyGrpcService } from '@a2a-js/sdk/compat/v0_3/server/grpc';
import { canceled, options, play } from './agent.mjs';
import { event } from './agent_v1.mjs';

const settings = options();
const held = new Map();

const executor = {
  async execute({ userMessage, taskId, contextId }, bus) {
    const hold = new Promise((resolve) => held.set(taskId, { resolve, contextId }));
    const text = userMessage.parts.find((part) => part.content?.$case === 'text').content.value;
    for await (const old of play(text, taskId, contextId, undefined, hold)) bus.publish(event(old, userMessage));
    bus.finished();
  },
  async cancelTask(taskId, bus) {
    const { resolve, contextId } = held.get(taskId);
    bus.publish(event(canceled(taskId, contextId)));
    resolve();
  },
};

function card() {
  const text = readFileSync(new URL('./card_v1.json', import.meta.url), 'utf8');
  const value = JSON.parse(text.replaceAll('$http', settings.public).replaceAll('$grpc', settings.publicGrpc));
  if (settings.bare) value.capabilities = { streaming: false, pushNotifications: false };
  return AgentCard.fromJSON(value);
}

const agentCard = card();
const store = settings.bare ? undefined : new InMemoryPushNotificationStore();
const requestHandler = new DefaultRequestHandler(
  agentCard,
  new InMemoryTaskStore(),
  executor,
  new DefaultExecutionEventBusManager(),
  store,
  store && createLegacyAwarePushNotificationSender(store),
  settings.bare ? undefined : { ...agentCard, description: 'The extended card' },
);
const userBuilder = UserBuilder.noAuthentication;
const legacyCompat = { enabled: true };

const app = express();
app.use('/.well-known/agent-card.json', agentCardHandler({ agentCardProvider: requestHandler, legacyCompat }));
app.use('/rpc', jsonRpcHandler({ requestHandler, userBuilder, legacyCompat }));
app.use('/rest', restHandler({ requestHandler, userBuilder, legacyCompat }));

const server = new Server();
server.addService(A2AService, grpcService({ requestHandler, userBuilder }));
server.addService(LegacyA2AService, legacyGrpcService({ requestHandler, userBuilder }));
server.bindAsync(`127.0.0.1:${settings.grpc}`, ServerCredentials.createInsecure(), () => {
  app.listen(settings.http, '127.0.0.1');
});
