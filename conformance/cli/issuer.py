"""A fake authorization server: device code, client credentials, refresh, and OpenID Connect discovery."""

import base64
import itertools
import json
import threading
import time
import urllib.parse

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from stub import Http, Stub


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b'=').decode()


class Issuer:
    """`answers` is what the token endpoint says to a device code, in turn; the last one is repeated."""

    def __init__(self, answers=('ok',), interval=1, basic=True, lifetime=3600, refresh=True, oidc=None, device=True):
        self.answers, self.interval, self.basic = list(answers), interval, basic
        self.lifetime, self.refresh, self.oidc, self.device = lifetime, refresh, oidc or {}, device
        self.numbers, self.lock = itertools.count(1), threading.Lock()
        self.polls, self.grants, self.tokens, self.nonce = [], [], [], None
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.server = Stub(
            files={
                '/device': self.authorize,
                '/token': self.token,
                '/jwks': lambda _: {'keys': [self.jwk()]},
                '/.well-known/openid-configuration': lambda _: self.discovery(),
                '/.well-known/oauth-authorization-server': lambda _: self.discovery(),
            }
        )
        self.url = self.server.url

    def close(self):
        self.server.close()

    # --- Schemes for a card ---------------------------------------------------------------------------------------

    def device_scheme(self):
        flow = {
            'deviceAuthorizationUrl': f'{self.url}/device',
            'tokenUrl': f'{self.url}/token',
            'scopes': {'read': 'Read'},
        }
        return {'oauth2SecurityScheme': {'flows': {'deviceCode': flow}}}

    def client_scheme(self):
        flow = {'tokenUrl': f'{self.url}/token', 'scopes': {'read': 'Read'}}
        return {'oauth2SecurityScheme': {'flows': {'clientCredentials': flow}}}

    def oidc_scheme(self):
        return {'openIdConnectSecurityScheme': {'openIdConnectUrl': f'{self.url}/.well-known/openid-configuration'}}

    # --- Endpoints ------------------------------------------------------------------------------------------------

    def authorize(self, request):
        form = dict(urllib.parse.parse_qsl(request.body.decode()))
        self.grants.append(('device', form, request.headers))
        return {
            'device_code': 'dev-code-secret-7781',
            'user_code': 'WDJB-MJHT',
            'verification_uri': f'{self.url}/verify',
            'expires_in': 300,
            'interval': self.interval,
        }

    def token(self, request):
        form = dict(urllib.parse.parse_qsl(request.body.decode()))
        grant = form.get('grant_type', '')
        self.grants.append((grant, form, request.headers))
        if grant.endswith('device_code'):
            with self.lock:
                answer = self.answers[min(len(self.polls), len(self.answers) - 1)]
                self.polls.append(time.monotonic())
            if answer != 'ok':
                return refuse(answer)
            return self.grant(form)
        if grant == 'client_credentials':
            by_basic = request.headers.get('authorization', '').startswith('Basic ')
            if by_basic != self.basic:
                return refuse('invalid_client', 401)
            given = (
                base64.b64decode(request.headers['authorization'][6:]).decode()
                if by_basic
                else (f'{form.get("client_id")}:{form.get("client_secret")}')
            )
            if given != 'robot:s3cret-client-9931':
                return refuse('invalid_client', 401)
            return self.grant(form)
        if grant == 'refresh_token':
            return self.grant(form) if self.refresh else refuse('invalid_grant')
        return refuse('unsupported_grant_type')

    def grant(self, form):
        number = next(self.numbers)
        value = {
            'access_token': f'access-token-secret-{number}',
            'token_type': 'Bearer',
            'expires_in': self.lifetime,
            'refresh_token': f'refresh-token-secret-{number}',
            'scope': form.get('scope', 'read'),
        }
        if self.oidc is not None and 'openid' in form.get('scope', self.scope()):
            value['id_token'] = self.id_token(form)
        self.tokens.append(value['access_token'])
        return value

    def scope(self):
        return next((form.get('scope', '') for kind, form, _ in reversed(self.grants) if kind == 'device'), '')

    def discovery(self):
        value = {
            'issuer': self.url,
            'token_endpoint': f'{self.url}/token',
            'jwks_uri': f'{self.url}/jwks',
            'authorization_endpoint': f'{self.url}/authorize',
            'response_types_supported': ['code'],
            'subject_types_supported': ['public'],
            'id_token_signing_alg_values_supported': ['ES256'],
        }
        if self.device:
            value['device_authorization_endpoint'] = f'{self.url}/device'
        return {**value, **self.oidc.get('discovery', {})}

    def jwk(self):
        numbers = self.key.public_key().public_numbers()
        x, y = (b64(value.to_bytes(32, 'big')) for value in (numbers.x, numbers.y))
        return {'kty': 'EC', 'crv': 'P-256', 'alg': 'ES256', 'use': 'sig', 'kid': 'k-1', 'x': x, 'y': y}

    def id_token(self, form):
        now = int(time.time())
        client = form.get('client_id') or 'robot'
        claims = {
            'iss': self.url,
            'aud': client,
            'sub': 'ada',
            'iat': now,
            'exp': now + 600,
            **self.oidc.get('claims', {}),
        }
        head = b64(json.dumps({'alg': 'ES256', 'kid': 'k-1', **self.oidc.get('header', {})}).encode())
        signed = f'{head}.{b64(json.dumps(claims).encode())}'
        key = self.oidc.get('key') or self.key
        r, s = decode_dss_signature(key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
        return f'{signed}.{b64(r.to_bytes(32, "big") + s.to_bytes(32, "big"))}'


def refuse(error, status=400):
    return Http(status, json.dumps({'error': error}).encode(), 'application/json')
