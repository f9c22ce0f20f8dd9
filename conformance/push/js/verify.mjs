// Verifies deliveries with the Standard Webhooks package from npm: a line of JSON in, "ok" or why not out.

import { createInterface } from 'node:readline';

import { Webhook } from 'standardwebhooks';

for await (const line of createInterface({ input: process.stdin })) {
  const { secret, body, headers } = JSON.parse(line);
  try {
    new Webhook(secret).verify(body, headers);
    console.log('ok');
  } catch (error) {
    console.log(error.message);
  }
}
