"""K1 signatures: what the three headers prove, and what they do not."""

import json
import time

import k1
from bindings import BINDINGS, NOBODY, Credential, Signed
from registry import check, equal, holds
from server import until
from stage import GRPC, HTTP, RPC, WHOAMI, XPR, account, said, texts, who, xpr

REQUIRED = 'Authentication required: X-XPR-Account, X-XPR-Timestamp, and X-XPR-Signature headers are required'
WINDOW = 'Request timestamp too far from server time (window: 300s)'


def second_begins():
    """Early in a second, so that what is said of it is true when it arrives."""
    until(lambda: 0.02 < time.time() % 1 < 0.3, 'the beginning of a second', pause=0.01)
    return int(time.time())


def served(outcome):
    holds(outcome.served, f'want it served, got {outcome}')
    return outcome


@check
def the_window_is_300_seconds_in_both_directions(world):
    with xpr(world) as (server, chain):
        alice = account(chain, 'alice')
        served(XPR.send(server, alice))
        for off in (-300, 300):
            served(XPR.send(server, Signed('alice', alice.key, off=off, clock=second_begins())))
        for off in (-301, 301, -3600, 3600):
            said(XPR.send(server, Signed('alice', alice.key, off=off, clock=second_begins())), -32000, WINDOW)


@check
def what_is_missing_or_malformed_is_said_in_the_words_of_the_network(world):
    with xpr(world) as (server, chain):
        alice = account(chain, 'alice')
        request = XPR.sending('hello')
        whole = dict(alice.headers(request[3]))
        for name in whole:
            left = [(key, value) for key, value in whole.items() if key != name]
            said(XPR.play(server, request, left), -32000, REQUIRED)
        said(XPR.send(server, NOBODY), -32000, REQUIRED)
        for name, value, words in (
            ('X-XPR-Timestamp', 'soon', 'Invalid X-XPR-Timestamp: must be a Unix timestamp'),
            ('X-XPR-Signature', 'SIG_K1_nonsense', 'Invalid signature: could not recover public key'),
            ('X-XPR-Account', 'bob', ''),
        ):
            said(XPR.play(server, request, list({**whole, name: value}.items())), -32000, words)
        stranger = Signed('alice', k1.Key.named('somebody'))
        words = "Signature verification failed: recovered key does not match any active key for account 'alice'"
        said(XPR.send(server, stranger), -32000, words)


@check
def the_envelope_is_looked_at_before_the_signature_and_the_method_after(world):
    with xpr(world) as (server, chain):
        answer = server.call('POST', '/a2a', (), b'{"jsonrpc":"1.0","id":1,"method":"message/send"}')
        equal('code of a bad envelope', answer.json['error']['code'], -32600)
        answer = server.call('POST', '/a2a', (), b'{"jsonrpc":"2.0","id":1,"method":"no/such","params":{}}')
        equal('code of an unknown method, unsigned', answer.json['error']['code'], -32000)


@check
def a_second_send_or_cancel_is_refused_and_a_second_get_is_not(world):
    with xpr(world) as (server, chain):
        alice = account(chain, 'alice')
        request = XPR.sending('hello')
        headers = alice.headers(request[3])
        task = served(XPR.play(server, request, headers)).task
        refused = XPR.play(server, request, headers)
        equal('a second send', (refused.status, refused.code), (200, -32000))
        get = XPR.getting(task)
        headers = alice.headers(get[3])
        for _ in range(3):
            served(XPR.play(server, get, headers))
        cancel = XPR.cancelling(task)
        headers = alice.headers(cancel[3])
        first, second = XPR.play(server, cancel, headers), XPR.play(server, cancel, headers)
        equal('cancel of a completed task', first.code, -32002)
        equal('a second cancel', (second.status, second.code), (200, -32000))


@check
def a_replay_is_known_at_every_door_and_in_every_form(world):
    """The signature covers neither path nor itself: other paths and its high twin are the same request."""
    with xpr(world) as (server, chain):
        alice = account(chain, 'alice')
        old = BINDINGS['0.3 JSON-RPC']
        request = old.sending('hello')
        headers = alice.headers(request[3])
        served(old.play(server, request, headers))
        elsewhere = ('POST', '/agents/other', request[2], request[3])
        equal('at another agent', old.play(server, elsewhere, headers).status, 401)
        twin = [(k, k1.high_s(v) if k == 'X-XPR-Signature' else v) for k, v in headers]
        equal('with the high twin of its signature', old.play(server, request, twin).status, 401)
        padded = [(k, '0' + v if k == 'X-XPR-Timestamp' else v) for k, v in headers]
        equal('with a zero before the time', old.play(server, request, padded).status, 401)


@check
def a_replay_is_known_after_a_restart(world):
    with xpr(world) as (server, chain):
        alice = account(chain, 'alice')
        request = XPR.sending('hello')
        headers = alice.headers(request[3])
        served(XPR.play(server, request, headers))
        server.stop()
        server.start()
        said(XPR.play(server, request, headers), -32000, '')


@check
def a_body_that_was_written_anew_is_refused(world):
    with xpr(world) as (server, chain):
        alice = account(chain, 'alice')
        method, path, own, body = XPR.sending('hello')
        headers = alice.headers(body)
        for other in (json.dumps(json.loads(body), separators=(',', ':')).encode(), body + b'\n', b' ' + body):
            said(XPR.play(server, (method, path, own, other), headers), -32000, 'Signature verification failed')
        served(XPR.play(server, (method, path, own, body), headers))


@check
def a_get_over_http_is_signed_with_an_empty_body(world):
    with xpr(world) as (server, chain):
        alice = account(chain, 'alice')
        task = served(HTTP.send(server, alice)).task
        served(HTTP.get(server, alice, task))


@check
def the_owner_is_the_account_that_signed_whatever_is_claimed(world):
    with xpr(world) as (server, chain):
        alice, bob = account(chain, 'alice'), account(chain, 'bob')
        request = XPR.sending('hello', **{'xpr:callerAccount': 'bob', 'metadata': {'xpr:jobId': 42}})
        task = served(XPR.play(server, request, alice.headers(request[3])))
        equal('owner', task.value['result'].get('owner'), 'alice')
        equal('metadata', task.value['result'].get('metadata'), {'xpr:jobId': 42})
        said(XPR.get(server, bob, task.task), -32001, f'Task not found: {task.task}')
        equal('owner when read', served(XPR.get(server, alice, task.task)).value['result'].get('owner'), 'alice')


@check
def the_agent_is_told_the_account_and_the_job(world):
    with xpr(world, agents=WHOAMI) as (server, chain):
        alice = account(chain, 'alice')
        request = XPR.sending('hello', **{'xpr:callerAccount': 'bob', 'metadata': {'xpr:jobId': 42}})
        outcome = served(XPR.play(server, request, alice.headers(request[3])))
        text = texts(outcome)
        told = dict(line.split('=', 1) for line in text.splitlines())
        equal('caller', told['caller'], 'xpr:alice')
        equal('job', told['job'], '42')


@check
def a_claimed_account_without_a_signature_is_nobody(world):
    """Where credentials are optional, an unsigned name is not believed."""
    with xpr(world, required='false', agents=WHOAMI) as (server, chain):
        alice = account(chain, 'alice')
        task = served(XPR.send(server, alice)).task
        claim = Credential(('X-XPR-Account', 'alice'))
        request = XPR.sending('hello', **{'xpr:callerAccount': 'alice'})
        unsigned = XPR.play(server, request, claim.headers(b''))
        if unsigned.served:
            equal('owner', unsigned.value['result'].get('owner'), 'anonymous')
        else:
            said(unsigned, -32000, '')
        holds(not XPR.get(server, claim, task).served, "an unsigned claim read alice's task")
        equal('an unsigned caller', who(server, NOBODY)['caller'], 'anonymous')
        said(XPR.send(server, Signed('alice', k1.Key.named('bob'))), -32000, 'Signature verification failed')


@check
def the_forms_of_keys_on_the_chain_are_all_understood(world):
    with xpr(world) as (server, chain):
        key = k1.Key.named('alice')
        for name, text in (('alice', key.public), ('bob', key.legacy)):
            chain.account(name, text)
            chain.agent(name)
            served(XPR.send(server, Signed(name, key)))


@check
def the_threshold_counts_only_where_it_is_asked_for(world):
    key, other = k1.Key.named('alice'), k1.Key.named('bob')
    for settings, weight, wanted in (('', 1, True), ('threshold = true', 1, False), ('threshold = true', 2, True)):
        with xpr(world, settings) as (server, chain):
            chain.account('alice', key, other, threshold=2, weights=[weight, 1])
            chain.agent('alice')
            outcome = XPR.send(server, Signed('alice', key))
            equal(f'served with {settings or "no threshold"} and weight {weight} of 2', outcome.served, wanted)


@check
def twenty_calls_a_minute_and_the_next_is_refused_with_the_words(world):
    with xpr(world, rate=None) as (server, chain):
        alice, bob = account(chain, 'alice'), account(chain, 'bob')
        for _ in range(3):
            # What does not verify costs nothing.
            XPR.send(server, Signed('alice', bob.key))
        for number in range(20):
            outcome = XPR.send(server, alice)
            holds(outcome.served, f'call {number + 1}: {outcome}')
        said(XPR.send(server, alice), -32000, "Rate limit exceeded: 20 requests per minute for account 'alice'")
        said(XPR.get(server, alice, 'task'), -32000, 'Rate limit exceeded')
        served(XPR.send(server, bob))
        limited = RPC.send(server, alice)
        equal('over JSON-RPC', (limited.status, limited.code), (429, -32000))
        holds(1 <= int(limited.headers.get('retry-after', 0)) <= 60, f'Retry-After: {limited.headers}')


@check
def where_only_signatures_are_taken_grpc_is_not_offered(world):
    with xpr(world) as (server, chain):
        alice = account(chain, 'alice')
        card = server.call('GET', '/.well-known/agent-card.json', {'A2A-Version': '1.0'}).json
        bindings = {entry['protocolBinding'] for entry in card['supportedInterfaces']}
        holds('GRPC' not in bindings and 'JSONRPC' in bindings, f'the card offers {bindings}')
        equal('gRPC', GRPC.send(server, alice).status, 16)


@check
def a_second_stream_is_refused_like_a_second_send(world):
    message = {'messageId': 'm-1', 'role': 'ROLE_USER', 'parts': [{'text': 'hello'}]}
    old = {'id': 'q-1', 'message': {'role': 'user', 'parts': [{'type': 'text', 'text': 'hello'}]}}
    with xpr(world) as (server, chain):
        alice = account(chain, 'alice')
        for method, params, version in (
            ('SendStreamingMessage', {'message': message}, [('A2A-Version', '1.0')]),
            ('tasks/sendSubscribe', old, []),
        ):
            body = json.dumps({'jsonrpc': '2.0', 'id': 1, 'method': method, 'params': params}).encode()
            headers = [*version, *alice.headers(body)]
            statuses = [server.call('POST', '/', headers, body).status for _ in range(2)]
            equal(method, statuses, [200, 401])
