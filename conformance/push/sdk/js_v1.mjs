// The official JavaScript SDK 1.x as a customer of webhooks: registers them, and reads what they are sent.
//
//     js_v1.mjs BASE_URL VERSION          # commands on standard input, answers on standard output, a line of JSON each
//
// Told to speak 0.3, it is given only our interfaces of 0.3, and reads with what the SDK offers to receivers of that time.

import { randomUUID } from 'node:crypto';
import { createInterface } from 'node:readline';

import { SendMessageRequest, StreamResponse, TaskPushNotificationConfig, taskStateToJSON } from '@a2a-js/sdk';
import {
  ClientFactory,
  DefaultAgentCardResolver,
  JsonRpcTransportFactory,
  RestTransportFactory,
} from '@a2a-js/sdk/client';
import { GrpcTransportFactory } from '@a2a-js/sdk/client/grpc';
import { legacyPushNotificationToV1StreamResponse } from '@a2a-js/sdk/compat/v0_3';

const TRANSPORTS = { JSONRPC: JsonRpcTransportFactory, 'HTTP+JSON': RestTransportFactory, GRPC: GrpcTransportFactory };
const [base, version] = process.argv.slice(2);
const clients = {};

async function client(binding) {
  if (!clients[binding]) {
    const older = version === '0.3' ? { legacyCompat: { enabled: true } } : {};
    const factory = new ClientFactory({ transports: [new TRANSPORTS[binding](older)] });
    const card = await new DefaultAgentCardResolver({ ...older, fetchImpl: (url) => fetch(url) }).resolve(`${base}/`);
    const supportedInterfaces = card.supportedInterfaces.filter((i) => i.protocolVersion.startsWith(version));
    clients[binding] = await factory.createFromAgentCard({ ...card, supportedInterfaces });
  }
  return clients[binding];
}

function wish({ id, url, token, scheme, credentials }, fields = {}) {
  const authentication = scheme ? { scheme, credentials: credentials ?? '' } : undefined;
  return { id, url, token: token ?? '', authentication, ...fields };
}

async function send(sender, text, taskId = '', configuration = {}) {
  const message = { messageId: randomUUID(), role: 'ROLE_USER', parts: [{ text }], taskId };
  return sender.sendMessage(SendMessageRequest.fromJSON({ message, configuration }));
}

const COMMANDS = {
  async register(asked) {
    const sender = await client(asked.binding);
    if (asked.how === 'inline') {
      const configuration = { returnImmediately: true, taskPushNotificationConfig: wish(asked) };
      return { task: (await send(sender, 'go', '', configuration)).id };
    }
    const task = await send(sender, 'ask me');
    const config = TaskPushNotificationConfig.fromJSON(wish(asked, { taskId: task.id }));
    await sender.createTaskPushNotificationConfig(config);
    await send(sender, 'this one', task.id, { returnImmediately: true });
    return { task: task.id };
  },

  async kept({ binding, task, id }) {
    const asker = await client(binding);
    const get = await asker.getTaskPushNotificationConfig({ tenant: '', taskId: task, id });
    const list = await asker.listTaskPushNotificationConfig({ tenant: '', taskId: task, pageSize: 0, pageToken: '' });
    return { get, list };
  },

  async read({ body }) {
    const parse = version === '0.3' ? legacyPushNotificationToV1StreamResponse : StreamResponse.fromJSON;
    const { $case, value } = parse(JSON.parse(body)).payload;
    const artifacts = $case === 'artifactUpdate' ? [value.artifact] : $case === 'task' ? value.artifacts : [];
    const texts = artifacts.flatMap((a) => a.parts.map((p) => p.content.value));
    const state = value.status ? taskStateToJSON(value.status.state) : null;
    const kind = $case.replace('Update', '_update');
    return { kind, task: $case === 'task' ? value.id : value.taskId, state, texts };
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const asked = JSON.parse(line);
  let answer;
  try {
    answer = await COMMANDS[asked.do](asked);
  } catch (error) {
    answer = { error: `${error.name}: ${error.message}` };
  }
  console.log(JSON.stringify(answer));
}
