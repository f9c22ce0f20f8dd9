// The last official JavaScript SDK for 0.3 as a customer of webhooks: registers them, and reads what they are sent.
//
//     js_v03.mjs BASE_URL VERSION          # commands on standard input, answers on standard output, a line of JSON each
//
// This SDK has types only while it is compiled; what is read here are the marks by which it knows a task.

import { randomUUID } from 'node:crypto';
import { createInterface } from 'node:readline';

import { ClientFactory, JsonRpcTransportFactory, RestTransportFactory } from '@a2a-js/sdk/client';
import { GrpcTransportFactory } from '@a2a-js/sdk/client/grpc';

const TRANSPORTS = { JSONRPC: JsonRpcTransportFactory, 'HTTP+JSON': RestTransportFactory, GRPC: GrpcTransportFactory };
const [base] = process.argv.slice(2);
const clients = {};

async function client(binding) {
  clients[binding] ??= await new ClientFactory({ transports: [new TRANSPORTS[binding]()] }).createFromUrl(base);
  return clients[binding];
}

function wish({ id, url, token, scheme, credentials }) {
  const authentication = scheme ? { schemes: [scheme], credentials: credentials ?? undefined } : undefined;
  return { id, url, token: token ?? undefined, authentication };
}

function send(sender, text, taskId = undefined, configuration = undefined) {
  const message = { kind: 'message', messageId: randomUUID(), role: 'user', parts: [{ kind: 'text', text }], taskId };
  return sender.sendMessage({ message, configuration });
}

const COMMANDS = {
  async register(asked) {
    const sender = await client(asked.binding);
    if (asked.how === 'inline') {
      const task = await send(sender, 'go', undefined, { blocking: false, pushNotificationConfig: wish(asked) });
      return { task: task.id };
    }
    const task = await send(sender, 'ask me');
    await sender.setTaskPushNotificationConfig({ taskId: task.id, pushNotificationConfig: wish(asked) });
    await send(sender, 'this one', task.id, { blocking: false });
    return { task: task.id };
  },

  async kept({ binding, task, id }) {
    const asker = await client(binding);
    const get = await asker.getTaskPushNotificationConfig({ id: task, pushNotificationConfigId: id });
    return { get, list: await asker.listTaskPushNotificationConfig({ id: task }) };
  },

  async read({ body }) {
    const told = JSON.parse(body);
    const texts = (told.artifacts ?? []).flatMap((a) => a.parts.map((p) => p.text));
    const state = `TASK_STATE_${told.status.state.toUpperCase().replaceAll('-', '_')}`;
    return { kind: told.kind, task: told.id, state, texts };
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
