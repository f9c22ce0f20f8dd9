"""Puts real values where a document can only print an example: times, keys, tokens, signatures, ids of earlier answers.

In a request, `placeholders` says which printed values are replaced, and by what template:

    {now}, {now -301}                 a time, in ISO 8601
    {key NAME}                        an API key that this run has made
    {from NAME PATH}                  a value of the answer to the request NAME
    {sent NAME PATH}                  a value that was sent with the request NAME
    {jwt SECRET USER}                 a token of agent-native, for a user
    {process SECONDS SECRET NAME PATH}    the token of the processor route, for the task with this id

`sign` says who signs: `{"xpr": {"account": …}}` adds headers, `{"envelope": {"key": …, "from": …}}` signs the payload.
"""

import base64
import copy
import datetime
import hashlib
import hmac
import json
import re
import time

from comparison import set_at, value_at
from envelope import sign
from k1 import Key

TEMPLATE = re.compile(r'\{(\w+)(?: ([^}]*))?\}')


class AnswerMissing(Exception):
    """An earlier answer does not have the value that a request needs."""


def timestamp(seconds):
    moment = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=seconds)
    return moment.strftime('%Y-%m-%dT%H:%M:%S.%fZ')


def mac(secret, text):
    return hmac.digest(secret.encode(), text.encode(), hashlib.sha256)


def base64url(data):
    return base64.urlsafe_b64encode(data).decode().rstrip('=')


def native_token(secret, user):
    now = int(time.time())
    parts = {'alg': 'HS256', 'typ': 'JWT'}, {'sub': user, 'iat': now, 'exp': now + 300}
    text = '.'.join(base64url(json.dumps(part).encode()) for part in parts)
    return f'{text}.{base64url(mac(secret, text))}'


def process_token(seconds, secret, task):
    millis = int((time.time() + seconds) * 1000)
    return f'{millis}.{mac(secret, f"{task}:{millis}").hex()}'


class Placeholders:
    """What was asked and answered so far in one system, and the templates that refer to it."""

    def __init__(self):
        self.answers, self.sent = {}, {}

    def earlier(self, words, documents=None):
        name, path = words.rsplit(' ', 1)
        try:
            return value_at((self.answers if documents is None else documents)[name], path)
        except (KeyError, IndexError, TypeError):
            raise AnswerMissing(f'the answer to {name!r} has no {path}') from None

    def value(self, what, words, make_key):
        if what == 'now':
            return timestamp(float(words or 0))
        if what == 'key':
            return make_key(words)
        if what == 'from':
            return self.earlier(words)
        if what == 'sent':
            return self.earlier(words, self.sent)
        if what == 'jwt':
            return native_token(*words.split())
        if what == 'process':
            seconds, secret, answer = words.split(' ', 2)
            return process_token(float(seconds), secret, self.earlier(answer))
        raise ValueError(f'there is no placeholder {what!r}')

    def fill(self, request, make_key):
        """The request with real values, and the bytes of its body."""
        request = {'headers': {}, **copy.deepcopy(request)}
        for path, template in request.get('placeholders', {}).items():
            text = TEMPLATE.sub(lambda match: self.value(match[1], match[2], make_key), template)
            if path.startswith('header.'):
                request['headers'][path.removeprefix('header.')] = text
            else:
                set_at(request['body'], path, text)
        signer = request.get('sign', {})
        if terms := signer.get('envelope'):
            at = int(time.time()) + terms.get('shift', 0)
            request['body']['payload'] = sign(request['body']['payload'], terms['key'].encode(), terms['from'], at)
        body = None
        if 'raw' in request:
            body = request['raw'].encode()
        elif 'body' in request:
            body = json.dumps(request['body']).encode()
        if terms := signer.get('xpr'):
            at = int(time.time()) + terms.get('shift', 0)
            key = Key.named(terms.get('by', terms['account']))
            request['headers'] |= key.headers(terms['account'], at, body)
        return request, body
