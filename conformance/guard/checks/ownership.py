"""Whose a task is: names, retries and streams of one caller never lead to another's."""

import concurrent.futures
import json
import uuid

import grpc
import k1
import tokens
from bindings import BINDINGS, NOBODY, Credential, Signed, bearer
from registry import check, equal, holds
from server import until
from stage import GRPC, HTTP, RPC, XPR, account, running, xpr

KEYS = '[auth]\naccept = ["api_key"]\n'
SECRET = 'test-secret-of-the-owners-of-tasks'


def keyed(world, count=2, config=KEYS, **more):
    made = []

    def prepare(server):
        made.extend(server.key() for _ in range(count))

    return running(world, config, prepare=prepare, **more), made


def headers(key, **more):
    return {'A2A-Version': '1.0', 'Authorization': f'Bearer {key["key"]}', **more}


def message(text='hello', **more):
    return {'messageId': str(uuid.uuid4()), 'role': 'ROLE_USER', 'parts': [{'text': text}], **more}


def sent(server, key, body, **more):
    answer = server.call('POST', '/message:send', headers(key, **more), json.dumps({'message': body}).encode())
    equal('status', answer.status, 200)
    return answer.json['task']['id']


@check
def a_retry_by_another_caller_is_not_a_retry(world):
    context, keys = keyed(world)
    with context as server:
        body = message()
        first, again = sent(server, keys[0], body), sent(server, keys[0], body)
        equal('a retry of the same caller', again, first)
        holds(sent(server, keys[1], body) != first, "the same message of another caller was answered with ana's task")
        for number in range(2):
            named = {'Idempotency-Key': f'the-same-for-both-{number}'}
            ids = [sent(server, key, {**message(), 'messageId': f'm-{number}'}, **named) for key in keys]
            holds(ids[0] != ids[1], "the same Idempotency-Key of another caller was answered with ana's task")


@check
def a_retry_is_not_answered_to_who_has_lost_access(world):
    context, keys = keyed(world)
    with context as server:
        body = message()
        sent(server, keys[0], body)
        server.command('key', 'revoke', keys[0]['id'])

        def status():
            data = json.dumps({'message': body}).encode()
            return server.call('POST', '/message:send', headers(keys[0]), data).status

        until(lambda: status() == 401, 'refused', 2)


@check
def a_stream_is_not_taken_up_by_another_caller(world):
    """`Last-Event-ID` finds a task by the id of the message; that of another caller finds nothing."""
    context, keys = keyed(world)
    with context as server:
        body = message('a secret of ana')
        task = sent(server, keys[0], body)
        data = json.dumps({'message': body}).encode()
        answer = server.call('POST', '/message:stream', headers(keys[1], **{'Last-Event-ID': '1'}), data)
        holds(task.encode() not in answer.body, "ben was shown ana's stream")


@check
def names_that_clients_choose_never_meet(world):
    context, keys = keyed(world)
    with context as server:
        old = BINDINGS['0.1 JSON-RPC']
        name = 'task-of-the-same-name'
        for key, text in zip(keys, ('of ana', 'of ben'), strict=True):
            request = old.sending(text, id=name)
            outcome = old.play(server, request, bearer(key['key']).headers(b''))
            equal('id', outcome.task, name)
        for key, text in zip(keys, ('of ana', 'of ben'), strict=True):
            holds(text in old.get(server, bearer(key['key']), name).text, f'{name} is not the one {text}')


@check
def names_of_xpr_tasks_never_meet_either(world):
    with xpr(world) as (server, chain):
        callers = {'alice': account(chain, 'alice'), 'bob': account(chain, 'bob')}
        for name, caller in callers.items():
            request = XPR.sending(f'of {name}', id='task-1')
            outcome = XPR.play(server, request, caller.headers(request[3]))
            holds(outcome.served, f'{name}: {outcome}')
        for name, caller in callers.items():
            holds(f'of {name}' in XPR.get(server, caller, 'task-1').text, f'task-1 is not that of {name}')


@check
def keys_of_agent_native_retries_never_meet(world):
    native = BINDINGS['agent-native']
    with running(world, '', env={'A2A_SECRET': SECRET}) as server:
        ids = []
        for name in ('ana', 'ben', 'ana'):
            credential = bearer(tokens.shared(SECRET, f'{name}@example.org'))
            request = native.sending(f'of {name}', **{'async': True, 'idempotencyKey': 'the-same'})
            outcome = native.play(server, request, credential.headers(b''))
            holds(outcome.served, str(outcome))
            ids.append(outcome.task)
        equal('a retry of ana', ids[2], ids[0])
        holds(ids[0] != ids[1], "ben was given ana's task")


@check
def the_owner_of_a_native_task_is_an_address_in_an_organisation(world):
    with running(world, '', env={'A2A_SECRET': SECRET}) as server:
        task = RPC.send(server, bearer(tokens.shared(SECRET, 'ana@example.org', org_domain='example.org'))).task
        for subject, domain, wanted in (
            ('ana@example.org', 'example.org', True),
            ('ana@example.org', 'EXAMPLE.org', True),
            ('ANA@Example.org', 'example.org', True),
            ('ana@example.org', 'other.org', False),
            ('ana@example.org', None, False),
            ('ben@example.org', 'example.org', False),
        ):
            got = RPC.get(server, bearer(tokens.shared(SECRET, subject, org_domain=domain)), task).served
            equal(f'{subject} of {domain} reads it', got, wanted)


@check
def a_rotated_key_is_the_same_caller(world):
    context, keys = keyed(world, 1)
    with context as server:
        task = sent(server, keys[0], message())
        fresh = server.command('key', 'rotate', keys[0]['id'])
        until(lambda: RPC.get(server, bearer(fresh['key']), task).served, 'the task read with the new key', 2)


@check
def tasks_keep_their_owners_over_a_restart(world):
    context, keys = keyed(world)
    with context as server:
        task = sent(server, keys[0], message())
        server.stop()
        server.start()
        holds(RPC.get(server, bearer(keys[0]['key']), task).served, 'the owner is refused')
        equal('another', RPC.get(server, bearer(keys[1]['key']), task).code, -32001)


@check
def a_signed_request_is_played_once_however_often_it_arrives(world):
    with xpr(world) as (server, chain):
        alice = account(chain, 'alice')
        holds(XPR.send(server, alice).served, 'before')
        for _ in range(3):
            request = XPR.sending('only once')
            signed = alice.headers(request[3])
            with concurrent.futures.ThreadPoolExecutor(12) as pool:
                answers = list(pool.map(lambda _, r=request, s=signed: XPR.play(server, r, s).served, range(24)))
            equal('served out of 24 at the same time', sum(answers), 1)


@check
def a_limit_is_kept_by_calls_at_the_same_time(world):
    context, keys = keyed(world, 1, KEYS + '[limits]\nrate_per_minute = 10\n')
    with context as server, concurrent.futures.ThreadPoolExecutor(12) as pool:
        credential = bearer(keys[0]['key'])
        answers = list(pool.map(lambda _: RPC.send(server, credential).status, range(40)))
        equal('served out of 40 at the same time', answers.count(200), 10)
        equal('and the others', answers.count(429), 30)


@check
def every_operation_is_behind_the_door(world):
    """Not send and get alone: every call of 1.0 over three bindings, and the paths of 0.3."""
    with running(world, KEYS) as server:
        for method in (
            'SendMessage',
            'SendStreamingMessage',
            'GetTask',
            'ListTasks',
            'CancelTask',
            'SubscribeToTask',
            'CreateTaskPushNotificationConfig',
            'GetTaskPushNotificationConfig',
            'ListTaskPushNotificationConfigs',
            'DeleteTaskPushNotificationConfig',
            'GetExtendedAgentCard',
            'NoSuchMethod',
        ):
            call = json.dumps({'jsonrpc': '2.0', 'id': 1, 'method': method, 'params': {}}).encode()
            answer = server.call('POST', '/', {'A2A-Version': '1.0'}, call)
            equal(method, (answer.status, answer.json['error']['code']), (401, -32000))
        for verb, path in (
            ('POST', '/message:send'),
            ('POST', '/message:stream'),
            ('GET', '/tasks'),
            ('GET', '/tasks/x'),
            ('POST', '/tasks/x:cancel'),
            ('GET', '/tasks/x:subscribe'),
            ('POST', '/tasks/x/pushNotificationConfigs'),
            ('GET', '/tasks/x/pushNotificationConfigs'),
            ('GET', '/tasks/x/pushNotificationConfigs/y'),
            ('DELETE', '/tasks/x/pushNotificationConfigs/y'),
            ('GET', '/extendedAgentCard'),
            ('POST', '/acme/message:send'),
            ('GET', '/agents/other/tasks'),
        ):
            equal(f'{verb} {path}', server.call(verb, path, {'A2A-Version': '1.0'}, b'{}').status, 401)
        for verb, path in (
            ('POST', '/v1/message:send'),
            ('POST', '/v1/message:stream'),
            ('GET', '/v1/tasks/x'),
            ('GET', '/v1/card'),
            ('POST', '/v1/tasks/x:cancel'),
            ('POST', '/v1/tasks/x:subscribe'),
            ('GET', '/agent/authenticatedExtendedCard'),
        ):
            equal(f'{verb} {path}', server.call(verb, path, (), b'{}').status, 401)
        stub = GRPC.stub(GRPC.channel(server, None))
        pb = GRPC.pb
        for name, request in (
            ('ListTasks', pb.ListTasksRequest()),
            ('GetExtendedAgentCard', pb.GetExtendedAgentCardRequest()),
            ('CancelTask', pb.CancelTaskRequest(id='x')),
            ('SubscribeToTask', pb.SubscribeToTaskRequest(id='x')),
            # A whole message: gRPC is decoded first, because the tenant in it says which agent is asked.
            ('SendMessage', GRPC.sending('hello')[1]),
            ('SendStreamingMessage', GRPC.sending('hello')[1]),
            ('ListTaskPushNotificationConfigs', pb.ListTaskPushNotificationConfigsRequest(task_id='x')),
        ):
            try:
                reply = getattr(stub, name)(request, metadata=[('a2a-version', '1.0')], timeout=10)
                list(reply) if hasattr(reply, '__next__') else None
                code = 0
            except grpc.RpcError as error:
                code = error.code().value[0]
            equal(f'{name} over gRPC', code, 16)


@check
def odd_names_of_accounts_go_nowhere(world):
    with xpr(world) as (server, chain):
        key = k1.Key.named('odd')
        for name in ('Alice', 'a' * 14, 'ali ce', '"}', '../x', 'alice\\u0000', '.', 'alice.', '6789'):
            holds(not XPR.send(server, Signed(name, key)).served, f'{name!r} was let in')
        holds(chain.asked_rows('agents') == 0, 'the tables were asked about nobody')


@check
def bodies_in_chunks_are_signed_like_others(world):
    """The signature is over what was sent, not over how."""
    import http.client

    with xpr(world) as (server, chain):
        alice = account(chain, 'alice')
        body = XPR.sending('in chunks')[3]
        connection = http.client.HTTPConnection(*server.address, timeout=10)
        pairs = {'Content-Type': 'application/json', **dict(alice.headers(body))}
        connection.request('POST', '/a2a', iter([body[:10], body[10:50], body[50:]]), pairs, encode_chunked=True)
        answer = json.loads(connection.getresponse().read())
        connection.close()
        holds('result' in answer, f'got {answer}')


@check
def what_strangers_made_is_not_the_tasks_of_callers(world):
    context, keys = keyed(world, 1, '[auth]\naccept = ["api_key"]\nrequired = false\n')
    with context as server:
        theirs, own = RPC.send(server, NOBODY).task, sent(server, keys[0], message())
        equal("a stranger's task, by a caller", RPC.get(server, bearer(keys[0]['key']), theirs).code, -32001)
        equal("a caller's task, by a stranger", HTTP.get(server, Credential(), own).status, 404)
