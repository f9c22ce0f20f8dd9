"""Lets only those in who have a token of the provider: for HTTP and for gRPC, after the provider's own keys.

Everything is checked that a resource server has to: signature, issuer, audience and expiry. The card is for everybody.
"""

import asyncio
import base64
import json
import time

import grpc
import httpx
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from starlette.responses import JSONResponse

OPEN = ('/.well-known/agent-card.json', '/files/paper.txt')


class Refused(Exception):
    pass


def decoded(text):
    return base64.urlsafe_b64decode(text + '=' * (-len(text) % 4))


def number(text):
    return int.from_bytes(decoded(text), 'big')


class Check:
    def __init__(self, issuer, audience, ca=None):
        self.issuer, self.audience, self.keys = issuer, audience, None
        self.client = httpx.AsyncClient(trust_env=False, verify=ca or True)
        self.lock = asyncio.Lock()

    async def load(self):
        async with self.lock:
            if self.keys is None:
                about = (await self.client.get(f'{self.issuer}/.well-known/openid-configuration')).json()
                keys = (await self.client.get(about['jwks_uri'])).json()['keys']
                self.keys = {key['kid']: key for key in keys}

    async def caller(self, header):
        """Who calls, by the token in an `Authorization` header."""
        scheme, _, token = (header or '').partition(' ')
        if scheme.lower() != 'bearer' or not token:
            raise Refused('a token is needed')
        await self.load()
        try:
            head, body, signature = token.split('.')
            about, claims = json.loads(decoded(head)), json.loads(decoded(body))
            self.verify(self.keys[about['kid']], f'{head}.{body}'.encode(), decoded(signature), about['alg'])
        except (ValueError, KeyError, InvalidSignature) as error:
            raise Refused('the token is not one of the provider') from error
        audience = claims.get('aud')
        if claims.get('iss') != self.issuer or self.audience not in (audience, *(audience or ())):
            raise Refused('the token is for somebody else')
        if claims.get('exp', 0) <= time.time():
            raise Refused('the token has expired')
        return claims.get('sub') or claims.get('client_id')

    def verify(self, key, text, signature, algorithm):
        if algorithm != key.get('alg'):
            raise InvalidSignature
        if algorithm == 'RS256':
            public = rsa.RSAPublicNumbers(number(key['e']), number(key['n'])).public_key()
            return public.verify(signature, text, padding.PKCS1v15(), hashes.SHA256())
        public = ec.EllipticCurvePublicNumbers(number(key['x']), number(key['y']), ec.SECP256R1()).public_key()
        halves = (int.from_bytes(signature[at:at + 32], 'big') for at in (0, 32))
        return public.verify(encode_dss_signature(*halves), text, ec.ECDSA(hashes.SHA256()))


class Middleware:
    """For the two HTTP bindings."""

    def __init__(self, app, check):
        self.app, self.check = app, check

    async def __call__(self, scope, receive, send):
        if scope['type'] == 'http' and scope['path'] not in OPEN:
            header = dict(scope['headers']).get(b'authorization', b'').decode('latin-1')
            try:
                await self.check.caller(header)
            except Refused as why:
                challenge = f'Bearer realm="test", error="invalid_token", error_description="{why}"'
                refusal = JSONResponse({'error': str(why)}, 401, {'WWW-Authenticate': challenge})
                return await refusal(scope, receive, send)
        return await self.app(scope, receive, send)


class Interceptor(grpc.aio.ServerInterceptor):
    """For gRPC."""

    def __init__(self, check):
        self.check = check

    async def intercept_service(self, continuation, details):
        try:
            await self.check.caller(dict(details.invocation_metadata).get('authorization'))
        except Refused as why:
            handler = await continuation(details)
            return refusal(handler, str(why))
        return await continuation(details)


def refusal(handler, why):
    """A handler of the same form that refuses."""

    async def once(_, context):
        await context.abort(grpc.StatusCode.UNAUTHENTICATED, why)

    async def stream(_, context):
        await context.abort(grpc.StatusCode.UNAUTHENTICATED, why)
        yield

    make = grpc.unary_stream_rpc_method_handler if handler.response_streaming else grpc.unary_unary_rpc_method_handler
    return make(
        stream if handler.response_streaming else once,
        request_deserializer=handler.request_deserializer, response_serializer=handler.response_serializer,
    )
