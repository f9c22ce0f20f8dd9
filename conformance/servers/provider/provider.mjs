// An OpenID provider for the tests: `oidc-provider` with a few clients, and with pages that let anybody in.
//
//     provider.mjs --port PORT [--tls CERT KEY]
//
// Access tokens are JWTs for the audience `urn:test:agent`, signed with ES256; id tokens are signed with RS256. What
// can be signed in with: a public client for the device flow and for the authorization code with PKCE on any loopback
// port, and clients with a secret for client credentials. A client whose name ends in `-short` gets tokens for three
// seconds.

import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import { generateKeyPairSync } from 'node:crypto';
import Provider from 'oidc-provider';

const AUDIENCE = 'urn:test:agent';
const at = (name) => process.argv.indexOf(name);
const port = Number(process.argv[at('--port') + 1]);
const tls = at('--tls') >= 0 && { cert: process.argv[at('--tls') + 1], key: process.argv[at('--tls') + 2] };
const issuer = tls ? `https://localhost:${port}` : `http://127.0.0.1:${port}`;

function key(kind, settings, kid, alg) {
  const { privateKey } = generateKeyPairSync(kind, settings);
  return { ...privateKey.export({ format: 'jwk' }), kid, alg, use: 'sig' };
}

const DEVICE = 'urn:ietf:params:oauth:grant-type:device_code';
const paths = ['/', '/callback', '/oauth/callback'];
const person = (client_id) => ({
  client_id,
  application_type: 'native',
  token_endpoint_auth_method: 'none',
  grant_types: [DEVICE, 'authorization_code', 'refresh_token'],
  response_types: ['code'],
  // The port is the client's to choose.
  redirect_uris: ['127.0.0.1', 'localhost'].flatMap((host) => paths.map((path) => `http://${host}${path}`)),
});
const machine = (client_id, token_endpoint_auth_method) => ({
  client_id,
  client_secret: `${client_id}-secret`,
  token_endpoint_auth_method,
  grant_types: ['client_credentials'],
  response_types: [],
  redirect_uris: [],
});

const provider = new Provider(issuer, {
  clients: [
    person('test-person'),
    person('test-person-short'),
    machine('test-machine', 'client_secret_basic'),
    machine('test-machine-short', 'client_secret_basic'),
    machine('test-machine-post', 'client_secret_post'),
  ],
  jwks: {
    keys: [
      key('rsa', { modulusLength: 2048 }, 'test-rs256', 'RS256'),
      key('ec', { namedCurve: 'P-256' }, 'test-es256', 'ES256'),
    ],
  },
  scopes: ['openid', 'offline_access', 'agent'],
  pkce: { required: () => true },
  cookies: { keys: ['a key for the cookies of a test'] },
  // Whoever may have a refresh token gets one.
  issueRefreshToken: async (context, client) => client.grantTypeAllowed('refresh_token'),
  ttl: {
    AccessToken: (context, token, client) => (client.clientId.endsWith('-short') ? 3 : 3600),
    ClientCredentials: (context, token, client) => (client.clientId.endsWith('-short') ? 3 : 3600),
    DeviceCode: 600,
    Grant: 86400,
    IdToken: 3600,
    Interaction: 3600,
    RefreshToken: 86400,
    Session: 86400,
  },
  features: {
    devInteractions: { enabled: true },
    deviceFlow: { enabled: true },
    clientCredentials: { enabled: true },
    introspection: { enabled: true },
    revocation: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: async () => AUDIENCE,
      useGrantedResource: async () => true,
      getResourceServerInfo: async () => ({
        scope: 'agent', audience: AUDIENCE, accessTokenFormat: 'jwt', jwt: { sign: { alg: 'ES256' } },
      }),
    },
  },
});

const server = tls
  ? createSecureServer({ cert: readFileSync(tls.cert), key: readFileSync(tls.key) }, provider.callback())
  : createServer(provider.callback());
server.listen(port, '127.0.0.1');
