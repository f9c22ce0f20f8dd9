"""The envelope as the published texts have it, written here from them and from nothing of the server's.

envelope('booking.search', {'query': 'sunset'})           # a dict, stamped with rising microseconds
sign(payload, key, 'my-agent')                            # the same payload with `_ts`, `_from` and `_sig`
Caller(server, key).ask('network.ping')                   # posts it, and checks the shape of whatever comes back
"""

import contextlib
import datetime
import hashlib
import hmac
import http.client
import json
import re
import threading
import time

PROTOCOL = 'openclaw/a2a/v1'
NETWORK = 'network:agnt'
PATH = '/a2a/v1'
MEMBERS = ('protocol', 'from', 'to', 'intent', 'payload', 'agent_context', 'ttl_ms', 'timestamp')
# Every error there is: the statuses it may come with, and whether the same envelope may be sent again.
ERRORS = {
    'invalid_envelope': ((400, 415, 422), False),
    'unsupported_protocol': ((400,), False),
    'unknown_intent': ((400,), False),
    'invalid_payload': ((422,), False),
    'unauthorized': ((401,), False),
    'invalid_signature': ((401,), False),
    'stale_timestamp': ((400,), False),
    'tier_required': ((403,), False),
    'scope_required': ((403,), False),
    'agent_mismatch': ((403,), False),
    'tls_required': ((403,), False),
    'venue_not_found': ((404,), False),
    'idempotency_conflict': ((409,), False),
    'in_progress': ((409,), True),
    'slot_unavailable': ((409,), False),
    'rate_limited': ((429,), True),
    'payload_too_large': ((413,), False),
    'circuit_open': ((503,), True),
    'venue_unreachable': ((502,), True),
    'ttl_exceeded': ((504,), True),
    'internal': ((500,), True),
    'payment_required': ((402,), None),
    'payment_declined': ((402,), None),
    'payment_limit_exceeded': ((402,), None),
    'loop_detected': ((508,), False),
    'hop_limit_exceeded': ((400,), False),
}
TRANSIENT = {code for code, (_, again) in ERRORS.items() if again} - {'rate_limited'}
MOMENT = re.compile(r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z')


# --- Time -------------------------------------------------------------------------------------------------------------


class Ticks:
    """Microseconds that rise strictly, whatever the clock does: two bookings never have the same timestamp."""

    def __init__(self):
        self.lock, self.last = threading.Lock(), 0

    def next(self, now=None):
        with self.lock:
            wanted = int((time.time() if now is None else now) * 1_000_000)
            self.last = wanted if now is not None else max(wanted, self.last + 1)
            return self.last


TICKS = Ticks()


def moment(micros):
    """ISO 8601 in UTC with microseconds."""
    return datetime.datetime.fromtimestamp(micros / 1_000_000, datetime.UTC).strftime('%Y-%m-%dT%H:%M:%S.%fZ')


def stamp(now=None):
    return moment(TICKS.next(now))


def instant(text):
    """The Unix seconds of a timestamp."""
    return datetime.datetime.fromisoformat(text.replace('Z', '+00:00')).timestamp()


# --- Signing ----------------------------------------------------------------------------------------------------------


def canonical(value):
    """What is signed, as Python writes it; the reference implementation is in Python."""
    return json.dumps(value, sort_keys=True, separators=(',', ':')).encode()


def mac(key, value):
    return hmac.new(key, canonical(value), hashlib.sha256).hexdigest()


def sign(payload, key, sender, ts=None, **binding):
    """The payload with its signature; `to`, `intent` and `nonce` bind it to them."""
    signed = {**payload, '_ts': int(time.time()) if ts is None else ts, '_from': sender}
    signed |= {f'_{name}': value for name, value in binding.items() if value is not None}
    return {**signed, '_sig': mac(key, signed)}


def verified(payload, key, now=None):
    """Why a signed payload is not to be believed, or nothing."""
    rest = {name: value for name, value in payload.items() if name != '_sig'}
    if not hmac.compare_digest(str(payload.get('_sig')), mac(key, rest)):
        return 'the signature is wrong'
    late = (time.time() if now is None else now) - rest['_ts']
    return None if -60 <= late <= 300 else f'{late} s old'


# --- Envelopes --------------------------------------------------------------------------------------------------------


def envelope(intent, payload=None, sender='judge', to=NETWORK, ttl=5000, timestamp=None, **more):
    """One envelope. `timestamp` is made where it is not given; with `timestamp=''` it has none."""
    every = {
        'protocol': PROTOCOL,
        'from': sender,
        'to': to,
        'intent': intent,
        'payload': payload or {},
        'ttl_ms': ttl,
        'timestamp': stamp() if timestamp is None else timestamp,
    }
    return {**every, **more}


class Answered:
    """What came back: HTTP, and the envelope in it."""

    def __init__(self, status, headers, body):
        self.status, self.body = status, body
        self.headers = {name.lower(): value for name, value in headers}

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def payload(self):
        return self.json['payload']

    @property
    def error(self):
        """The error in it, or `None`; a booking has a `status` of its own, so only this tells them apart."""
        return self.payload.get('error')

    @property
    def code(self):
        return (self.error or {}).get('code')

    @property
    def said(self):
        """Status and code, which is what most checks compare."""
        return self.status, self.code

    @property
    def replayed(self):
        return self.headers.get('a2a-idempotent-replay') == 'true'

    def __repr__(self):
        return f'HTTP {self.status} {self.body[:500]!r}'


class Caller:
    """Posts envelopes with one key. Every answer is held to the shape that all of them have."""

    def __init__(self, address, key=None, sender='judge', network=NETWORK, path=PATH):
        self.address, self.key, self.sender, self.network, self.path = address, key, sender, network, path

    def ask(self, intent, payload=None, **more):
        more.setdefault('sender', self.sender)
        more.setdefault('to', self.network)
        return self.post(envelope(intent, payload, **more))

    def good(self, intent, payload=None, **more):
        """The payload of an answer that must not be a refusal."""
        answer = self.ask(intent, payload, **more)
        assert answer.status == 200 and answer.error is None, f'{intent} {payload}: {answer}'
        return answer.payload

    def refused(self, wanted, intent, payload=None, **more):
        """An answer that must be this refusal: `(status, code)`."""
        answer = self.ask(intent, payload, **more)
        assert answer.said == wanted, f'{intent} {str(payload)[:300]} {str(more)[:200]}: want {wanted}, got {answer}'
        return answer

    def post(self, sent, seconds=20, headers=()):
        body = sent if isinstance(sent, bytes) else json.dumps(sent).encode()
        answer = self.raw(body, [('Content-Type', 'application/json'), *headers], seconds)
        check_shape(sent if isinstance(sent, dict) else None, answer)
        return answer

    def raw(self, body, headers=(), seconds=20, method='POST', path=None):
        connection = http.client.HTTPConnection(*self.address, timeout=seconds)
        try:
            connection.putrequest(method, path or self.path, skip_accept_encoding=True)
            if self.key is not None:
                connection.putheader('Authorization', f'Bearer {self.key}')
            for name, value in headers:
                connection.putheader(name, value)
            if body is not None:
                connection.putheader('Content-Length', str(len(body)))
            # A server may refuse a long body before it has read all of it.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.endheaders(body)
            got = connection.getresponse()
            return Answered(got.status, got.getheaders(), got.read())
        finally:
            connection.close()


def check_shape(sent, answer):
    """An answer is an envelope, with sender and recipient reversed, and an error is one of those there are."""
    try:
        got = answer.json
    except ValueError:
        raise AssertionError(f'not an envelope: {answer}') from None
    assert tuple(got) == MEMBERS, f'members {tuple(got)}: {answer}'
    assert got['protocol'] and isinstance(got['payload'], dict), f'{answer}'
    assert MOMENT.fullmatch(got['timestamp']), f'timestamp {got["timestamp"]!r}'
    kind = answer.headers.get('content-type', '')
    assert kind.split(';')[0].strip() == 'application/json', f'content type {kind!r}'
    error = got['payload'].get('error')
    assert (error is None) == (answer.status == 200), f'status and error disagree: {answer}'
    if sent is not None and error is None:
        reversed_names = (sent.get('to', NETWORK), sent.get('from', sent.get('from_agent')), sent['intent'])
        assert (got['from'], got['to'], got['intent']) == reversed_names, f'sent {sent}, got {answer}'
        assert got['agent_context'] == sent.get('agent_context', {}), f'context {got["agent_context"]}'
        assert got['ttl_ms'] == sent.get('ttl_ms', 5000), f'ttl_ms {got["ttl_ms"]}'
    if error is not None:
        check_error(answer, error)


def check_error(answer, error):
    extra = set(error) - {'code', 'message', 'retryable', 'retry_after_ms', 'details'}
    assert not extra, f'an error has no {extra}: {answer}'
    assert error['code'] in ERRORS, f'no such error: {answer}'
    statuses, again = ERRORS[error['code']]
    assert answer.status in statuses, f'{error["code"]} with status {answer.status}'
    assert again is None or error['retryable'] is again, f'retryable is {error["retryable"]}: {answer}'
    assert error['message'], f'nothing is said: {answer}'
    if answer.status == 401:
        wanted = answer.headers.get('www-authenticate', '')
        assert error['code'] != 'unauthorized' or wanted.startswith('Bearer'), f'WWW-Authenticate {wanted!r}'
    if answer.status in (429, 503):
        wait = answer.headers.get('retry-after', '')
        assert wait.isdigit() and int(wait) > 0, f'Retry-After {wait!r}: {answer}'
