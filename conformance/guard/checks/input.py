"""What strangers do: headers twice, two credentials at once, floods of callers, clocks that are off."""

import json
import secrets
import socket
import statistics
import time

import k1
import tokens
from bindings import BINDINGS, NOBODY, Credential, Signed, bearer
from clock import Clock
from registry import check, equal, holds
from server import until
from stage import GRPC, HTTP, RPC, WHOAMI, XPR, account, running, said, who, xpr

KEYS = '[auth]\naccept = ["api_key"]\n'
SECRET = 'test-secret-of-many-callers-of-the-guard'


def keyed(world, count, config=KEYS, **more):
    made = []

    def prepare(server):
        made.extend(server.key() for _ in range(count))

    return running(world, config, prepare=prepare, **more), made


def authorization(text):
    return ('Authorization', text)


@check
def two_credentials_at_once_are_none(world):
    context, keys = keyed(world, 2)
    with context as server:
        one, other = (key['key'] for key in keys)
        for what, pairs in {
            'two bearers': [authorization(f'Bearer {one}'), authorization(f'Bearer {other}')],
            'a good and a bad bearer': [authorization(f'Bearer {one}'), authorization('Bearer sabir_' + '0' * 32)],
            'a bad and a good bearer': [authorization('Bearer sabir_' + '0' * 32), authorization(f'Bearer {one}')],
            'the same bearer twice': [authorization(f'Bearer {one}'), authorization(f'Bearer {one}')],
            'two keys in two headers': [authorization(f'Bearer {one}'), ('X-API-Key', other)],
            'two keys in one header': [('X-API-Key', one), ('X-API-Key', other)],
            'bearers in one line': [authorization(f'Bearer {one}, Bearer {other}')],
            'a bearer and a password': [authorization(f'Bearer {one}'), authorization('Basic YW5hOmI=')],
            'a key and a signature': [
                authorization(f'Bearer {one}'),
                ('X-XPR-Account', 'alice'),
                ('X-XPR-Timestamp', '1'),
                ('X-XPR-Signature', 'SIG_K1_x'),
            ],
        }.items():
            credential = Credential(*pairs)
            for binding in (RPC, HTTP):
                if 'signature' in what and binding is not HTTP:
                    continue
                outcome = binding.send(server, credential)
                equal(f'{what}, {binding.name}', outcome.status, 401)
            equal(f'{what}, gRPC', GRPC.send(server, credential).status, 16)
        holds(RPC.send(server, bearer(one)).served, 'one alone')


@check
def two_schemes_at_once_are_none(world):
    """Both good, and of two callers: nobody can say whose the task would be."""
    keys = []
    with xpr(world) as (_, chain):
        alice = account(chain, 'alice')
        config = f'[auth]\naccept = ["api_key", "xpr"]\n[auth.xpr]\nrpc_url = "{chain.url}"\n'
        with running(world, config, prepare=lambda s: keys.append(s.key()['key']), agents=WHOAMI) as server:
            request = RPC.sending('hello')
            signed = alice.headers(request[3])
            both = [*signed, authorization(f'Bearer {keys[0]}')]
            equal('both', RPC.play(server, request, both).status, 401)
            holds(RPC.play(server, request, signed).served, 'the signature alone, not used up by the refusal')
            equal('the key alone', who(server, bearer(keys[0]))['caller'][:4], 'key:')


@check
def odd_headers_let_nobody_in(world):
    context, keys = keyed(world, 1)
    with context as server:
        key = keys[0]['key']
        for text in (
            'Bearer',
            'Bearer ',
            f'Basic {key}',
            f'Bearer {key} x',
            f'Bearer {key}x',
            f'Bearer x{key}',
            key,
            f'Bearer "{key}"',
            f'Digest {key}',
            f'Bearer {key[:-1]}',
            f'Bearer {key.upper()}',
            'Bearer \xff',
        ):
            outcome = RPC.send(server, Credential(authorization(text)))
            holds(outcome.status in (400, 401), f'{text[:12]!r}…: {outcome}')
        outcome = RPC.send(server, Credential(authorization(f'bearer   {key}')))
        holds(outcome.served, f'the scheme is not case-sensitive: {outcome}')
        empty = RPC.send(server, Credential(('X-API-Key', '')))
        equal('an empty key', empty.status, 401)


@check
def a_header_in_two_lines_lets_nobody_in(world):
    context, keys = keyed(world, 1)
    with context as server:
        key = keys[0]['key']
        body, host = RPC.sending('hello')[3], server.url.partition('://')[2]
        for split in (
            f'Authorization: Bearer\r\n {key}',
            f'Authorization:\r\n Bearer {key}',
            f'Authorization : Bearer {key}',
            f'Authorization: Bearer {key[:10]}\r\n\t{key[10:]}',
        ):
            head = (
                f'POST / HTTP/1.1\r\nHost: {host}\r\nA2A-Version: 1.0\r\nContent-Type: application/json\r\n{split}\r\n'
            )
            with socket.create_connection(server.address, timeout=10) as raw:
                raw.sendall(f'{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n'.encode() + body)
                first = raw.recv(65536).split(b'\r\n')[0]
            holds(first.split()[1:2] in ([b'400'], [b'401']), f'{split!r}: {first}')


@check
def bad_credentials_are_refused_where_none_are_needed(world):
    context, keys = keyed(world, 1, '[auth]\naccept = ["api_key"]\nrequired = false\n', agents=WHOAMI)
    with context as server:
        equal('nobody', who(server, NOBODY)['caller'], 'anonymous')
        equal('a key', who(server, bearer(keys[0]['key']))['caller'], f'key:{keys[0]["id"]}')
        for binding in BINDINGS.values():
            outcome = binding.send(server, bearer('sabir_' + '0' * 32))
            holds(not outcome.served, f'{binding.name}: a wrong key was taken for nobody')


@check
def a_server_whose_clock_is_an_hour_off_says_so(world):
    for off in (-3600, 3600):
        clock = Clock(world, off)
        with xpr(world, clock=clock) as (server, chain):
            alice = account(chain, 'alice')
            said(XPR.send(server, alice), -32000, 'Request timestamp too far from server time')
            holds(XPR.send(server, Signed('alice', alice.key, off=off)).served, 'by its own clock')
        config = '[auth]\naccept = ["jwt"]\n[auth.jwt]\nsecret = "env:S"\n'
        with running(world, config, env={'S': SECRET, **clock.env}) as server:
            now = int(time.time())
            token = tokens.shared(SECRET, 'ana@example.org', iat=now, nbf=now)
            equal(f'a token, {off} s off', RPC.send(server, bearer(token)).status, 401)


# --- Floods -----------------------------------------------------------------------------------------------------------


class Pipe:
    """Requests one behind the other on one connection, in batches: the fastest way to be many."""

    def __init__(self, server):
        self.host = server.url.partition('://')[2].encode()
        self.raw = socket.create_connection(server.address, timeout=60)
        self.raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, credentials):
        """A cheap call with each of these headers; how often each status came back."""
        body = b'{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"none"}}'
        head = b'POST / HTTP/1.1\r\nA2A-Version: 1.0\r\nContent-Type: application/json\r\n'
        start = head + b'Host: %s\r\nContent-Length: %d\r\n' % (self.host, len(body))
        self.raw.sendall(b''.join(start + line + b'\r\n\r\n' + body for line in credentials))
        counts, data, left = {}, b'', len(credentials)
        while left:
            data += self.raw.recv(1 << 16)
            while True:
                end = data.find(b'\r\n\r\n')
                if end < 0:
                    break
                lines = data[:end].lower().split(b'\r\n')
                length = next(int(x[15:]) for x in lines if x.startswith(b'content-length:'))
                if len(data) < end + 4 + length:
                    break
                status = int(lines[0].split()[1])
                counts[status] = counts.get(status, 0) + 1
                data, left = data[end + 4 + length :], left - 1
        return counts

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.raw.close()


def merge(total, more):
    for status, count in more.items():
        total[status] = total.get(status, 0) + count


@check
def a_hundred_thousand_callers_are_counted_in_bounded_memory(world):
    """Each with a subject of its own under one secret, against the limiter; a tenth of them in the short form."""
    count = 10_000 if world.short else 100_000
    config = '[auth]\naccept = ["jwt"]\n[auth.jwt]\nsecret = "env:S"\n[limits]\nrate_per_minute = 5\n'
    with running(world, config, env={'S': SECRET, 'SABIR_LOG': 'warn'}) as server, Pipe(server) as pipe:

        def callers(numbers):
            return [
                f'Authorization: Bearer {tokens.shared(SECRET, f"caller-{n}@example.org")}'.encode() for n in numbers
            ]

        merge(counts := {}, pipe.ask(callers(range(200))))
        before, began = server.rss(), time.monotonic()
        for start in range(0, count, 200):
            merge(counts, pipe.ask(callers(range(start, start + 200))))
        took, grown = time.monotonic() - began, server.rss() - before
        equal('answers', set(counts), {200})
        holds(grown < 64, f'memory grew by {grown:.0f} MiB')
        again = {}
        for _ in range(6):
            merge(again, pipe.ask(callers([count - 1])))
        holds(again.get(429), f'the last caller is not limited: {again}')
        return f'{count} callers in {took:.0f} s, memory grew by {grown:.1f} MiB'


@check
def a_flood_of_wrong_keys_costs_bounded_memory(world):
    count = 2_000 if world.short else 20_000
    with running(world, KEYS, env={'SABIR_LOG': 'warn'}) as server, Pipe(server) as pipe:
        counts = {}
        merge(counts, pipe.ask([b'X-API-Key: sabir_' + secrets.token_hex(16).encode() for _ in range(100)]))
        before, began = server.rss(), time.monotonic()
        for _ in range(count // 100):
            merge(counts, pipe.ask([b'X-API-Key: sabir_' + secrets.token_hex(16).encode() for _ in range(100)]))
        took, grown = time.monotonic() - began, server.rss() - before
        equal('answers', set(counts), {401})
        holds(grown < 64, f'memory grew by {grown:.0f} MiB')
        data = sum(path.stat().st_size for path in (server.scratch / 'data').rglob('*') if path.is_file())
        return f'{count} wrong keys in {took:.0f} s, memory grew by {grown:.1f} MiB, data is {data / 2**20:.1f} MiB'


@check
def unknown_and_wrong_keys_take_the_same_time(world):
    """Reported, not judged: a busy machine proves nothing either way."""
    context, keys = keyed(world, 20, env={'SABIR_LOG': 'warn'})
    with context as server, Pipe(server) as pipe:
        real = keys[7]
        shown = real['prefix'].rstrip('.…*')
        missing = len(real['key']) - len(shown)
        times = {'unknown': [], 'wrong': []}
        for _ in range(150 if world.short else 600):
            for kind in times:
                text = shown + secrets.token_hex(32)[:missing] if kind == 'wrong' else 'sabir_' + secrets.token_hex(16)
                began = time.perf_counter()
                equal(kind, pipe.ask([b'X-API-Key: ' + text.encode()]), {401: 1})
                times[kind].append((time.perf_counter() - began) * 1e6)
        medians = {kind: statistics.median(values) for kind, values in times.items()}
        return ', '.join(f'{kind}: median {value:.0f} µs' for kind, value in medians.items())


@check
def others_tasks_take_the_time_of_unknown_ones(world):
    """Reported, not judged."""
    context, keys = keyed(world, 2, env={'SABIR_LOG': 'warn'})
    with context as server:
        ana, ben = (bearer(key['key']) for key in keys)
        task = RPC.send(server, ana).task
        times = {'theirs': [], 'unknown': []}
        for _ in range(40 if world.short else 200):
            for kind, name in (('theirs', task), ('unknown', task[:-12] + secrets.token_hex(6))):
                began = time.perf_counter()
                equal(kind, RPC.get(server, ben, name).code, -32001)
                times[kind].append((time.perf_counter() - began) * 1e6)
        return ', '.join(f'{kind}: median {statistics.median(values):.0f} µs' for kind, values in times.items())


@check
def a_flood_of_bad_signatures_keeps_others_served(world):
    with xpr(world, env={'SABIR_LOG': 'warn'}) as (server, chain):
        alice, key = account(chain, 'alice'), k1.Key.named('somebody')
        holds(XPR.send(server, alice).served, 'before')
        asked = chain.asked_account('alice')
        for _ in range(30):
            holds(not XPR.send(server, Signed('alice', key)).served, 'a bad signature was taken')
        holds(chain.asked_account('alice') <= asked + 1, 'the chain is asked for every bad signature')
        for number in range(20):
            XPR.send(server, Signed(f'nobody{"abcdefghijklmnopqrst"[number]}', key))
        holds(XPR.send(server, alice).served, 'afterwards')


@check
def a_stream_is_guarded_as_well(world):
    context, keys = keyed(world, 2)
    with context as server:
        ana, ben = (key['key'] for key in keys)
        message = {'messageId': 'm', 'role': 'ROLE_USER', 'parts': [{'text': 'hello'}]}
        call = {'jsonrpc': '2.0', 'id': 1, 'method': 'SendStreamingMessage', 'params': {'message': message}}
        for headers, wanted in (({}, 401), ({'Authorization': f'Bearer {ana}'}, 200)):
            answer = server.call('POST', '/', {'A2A-Version': '1.0', **headers}, json.dumps(call).encode())
            equal('a stream', answer.status, wanted)
        sent = server.call(
            'POST',
            '/message:send',
            {'A2A-Version': '1.0', 'Authorization': f'Bearer {ana}'},
            json.dumps(
                {'message': {**message, 'parts': [{'text': 'hold'}]}, 'configuration': {'returnImmediately': True}}
            ).encode(),
        )
        task = sent.json['task']['id']
        subscribe = f'/tasks/{task}:subscribe'
        answer = server.call('POST', subscribe, {'A2A-Version': '1.0', 'Authorization': f'Bearer {ben}'}, b'')
        equal("another's stream", answer.status, 404)
        answer = server.call('POST', subscribe, {'A2A-Version': '1.0'}, b'')
        equal("nobody's stream", answer.status, 401)
        until(lambda: RPC.cancel(server, bearer(ana), task).served, 'the task cancelled', 5)
