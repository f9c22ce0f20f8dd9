"""What a caller may do once it is known: scopes, tiers, limits, tool mode, production."""

import json
import uuid

from bindings import BINDINGS, NOBODY, Credential, bearer
from clock import Clock
from registry import check, equal, holds
from server import AGENTS, NotServing, until
from stage import GRPC, HTTP, RPC, WHOAMI, XPR, running, texts, who

KEYS = '[auth]\naccept = ["api_key"]\n'


def keyed(world, words, config=KEYS, **more):
    """A server, and a key for each list of words: filled in when it runs."""
    made = []

    def prepare(server):
        made.extend(server.key(*each) for each in words)

    return running(world, config, prepare=prepare, **more), made


def settled(server, credential):
    """The answer once the server has noticed the time: until it has read its keys again it knows nobody."""
    return until(lambda: (status := RPC.send(server, credential).status) != 503 and status, 'keys read again', 5)


@check
def a_scope_is_what_a_key_may_do(world):
    context, keys = keyed(
        world, [('--scope', 'send'), ('--scope', 'read'), ('--scope', 'send', '--scope', 'cancel'), ()]
    )
    with context as server:
        send, read, both, every = (bearer(key['key']) for key in keys)
        task = RPC.send(server, every).task
        equal('send with send', RPC.send(server, send).status, 200)
        for binding in BINDINGS.values():
            outcome = binding.send(server, read)
            holds(not outcome.served, f'{binding.name}: a key for reading sent a message')
        equal('get with read', RPC.get(server, read, task).code, -32001)
        refused = RPC.get(server, send, task)
        equal('get with send', (refused.status, refused.code), (403, -32000))
        refused = RPC.cancel(server, send, task)
        equal('cancel with send', (refused.status, refused.code), (403, -32000))
        equal('cancel with send and cancel: not its task', RPC.cancel(server, both, task).code, -32001)


@check
def a_key_can_be_tied_to_an_agent(world):
    context, keys = keyed(world, [('--agent', 'other'), ('--scope', 'agent:other')])
    with context as server:
        for key in keys:
            credential = bearer(key['key'])
            equal('at its agent', RPC.send(server, credential, agent='other').status, 200)
            for binding in (RPC, HTTP):
                equal(f'{binding.name}: at another', binding.send(server, credential).status, 403)
            equal('over gRPC at another', GRPC.send(server, credential).status, 7)


@check
def a_key_can_be_tied_to_a_skill(world):
    context, keys = keyed(world, [('--scope', 'skill:demo')])
    with context as server:
        headers = {'A2A-Version': '1.0', 'Authorization': f'Bearer {keys[0]["key"]}'}

        def status(**named):
            message = {'messageId': str(uuid.uuid4()), 'role': 'ROLE_USER', 'parts': [{'text': 'hello'}], **named}
            return server.call('POST', '/message:send', headers, json.dumps({'message': message}).encode()).status

        equal('its skill', status(metadata={'skillId': 'demo'}), 200)
        equal('another', status(metadata={'skillId': 'elsewhere'}), 403)
        equal('none, which would be a way around', status(), 403)


@check
def the_api_key_may_be_in_its_own_header(world):
    context, keys = keyed(world, [()], agents=WHOAMI)
    with context as server:
        credential = Credential(('X-API-Key', keys[0]['key']))
        equal('caller', who(server, credential)['caller'], f'key:{keys[0]["id"]}')
        holds(GRPC.send(server, credential).served, 'over gRPC')


@check
def keys_of_a_tier_have_the_form_and_the_quota_of_it(world):
    clock = Clock(world)
    config = KEYS + '[limits.tier.free]\nper_day = 3\n'
    context, keys = keyed(
        world, [('--tier', 'free'), ('--tier', 'pro'), ('--tier', 'free', '--test')], config, env=clock.env
    )
    with context as server:
        holds(keys[0]['key'].startswith('agnt_live_') and len(keys[0]['key']) == 42, 'form of a live key')
        holds(keys[2]['key'].startswith('agnt_test_') and len(keys[2]['key']) == 42, 'form of a test key')
        free = bearer(keys[0]['key'])
        equal('four calls of a free key', [RPC.send(server, free).status for _ in range(4)], [200, 200, 200, 429])
        equal('a pro key', RPC.send(server, bearer(keys[1]['key'])).status, 200)
        clock.forward(61)
        equal('a minute later', settled(server, free), 429)
        clock.forward(86400)
        equal('a day later', settled(server, free), 200)


@check
def the_limit_is_a_sliding_window_per_caller(world):
    clock = Clock(world)
    context, keys = keyed(world, [(), ()], KEYS + '[limits]\nrate_per_minute = 2\n', env=clock.env)
    with context as server:
        ana, ben = (bearer(key['key']) for key in keys)
        equal('first two', [RPC.send(server, ana).status for _ in range(2)], [200, 200])
        refused = RPC.send(server, ana)
        equal('the third', (refused.status, refused.code), (429, -32000))
        after = int(refused.headers['retry-after'])
        holds(1 <= after <= 60, f'Retry-After: {after}')
        old = BINDINGS['0.3 gRPC'].send(server, ana)
        equal('over gRPC of 0.3', (old.status, 'retry-after' in old.headers), (8, True))
        equal('another caller', RPC.send(server, ben).status, 200)
        clock.forward(after + 1)
        equal('after Retry-After', settled(server, ana), 200)


@check
def a_caller_can_have_a_limit_of_its_own(world):
    """The id of a key is known once it is made, so the file is written after it."""
    server = world.server(KEYS + '[limits]\nrate_per_minute = 1\n')
    ana, ben = server.key(), server.key()
    text = server.config.read_text()
    own = f'[[limits.caller]]\nname = "key:{ana["id"]}"\nper_minute = 3\n'
    server.config.write_text(text.replace('[store]', own + '[store]'))
    with server:
        equal('ana', [RPC.send(server, bearer(ana['key'])).status for _ in range(4)], [200, 200, 200, 429])
        equal('ben', [RPC.send(server, bearer(ben['key'])).status for _ in range(2)], [200, 429])


@check
def garbage_counts_too(world):
    """Rate comes before decoding: malformed requests are not free."""
    context, keys = keyed(world, [()], KEYS + '[limits]\nrate_per_minute = 2\n')
    with context as server:
        headers = {'Authorization': f'Bearer {keys[0]["key"]}', 'A2A-Version': '1.0'}
        got = [
            server.call('POST', '/', headers, b'{"jsonrpc":"2.0","id":1,"method":"GetTask"}').status for _ in range(3)
        ]
        equal('malformed calls', got, [200, 200, 429])


@check
def strangers_are_limited_by_their_address(world):
    config = '[auth]\naccept = ["api_key"]\nrequired = false\n[limits]\nanonymous_per_minute = 3\n'
    context, keys = keyed(world, [()], config)
    with context as server:
        equal('four strangers', [RPC.send(server, NOBODY).status for _ in range(4)], [200, 200, 200, 429])
        equal('a key', RPC.send(server, bearer(keys[0]['key'])).status, 200)
        spoofed = Credential(('X-Forwarded-For', '203.0.113.9'))
        equal('an address that is only claimed', RPC.send(server, spoofed).status, 429)


@check
def a_proxy_is_believed_when_it_is_named(world):
    config = (
        '[server]\nproxies = ["127.0.0.1"]\n[auth]\naccept = ["api_key"]\nrequired = false\n'
        '[limits]\nanonymous_per_minute = 1\n'
    )
    with running(world, config) as server:
        for address in ('203.0.113.9', '203.0.113.10'):
            credential = Credential(('X-Forwarded-For', address))
            equal(f'two calls of {address}', [RPC.send(server, credential).status for _ in range(2)], [200, 429])


@check
def an_agent_may_have_a_door_of_its_own(world):
    agents = AGENTS.replace(
        'name = "other"\nkind = "echo"\n', 'name = "other"\nkind = "echo"\n[agent.auth]\naccept = []\n'
    )
    context, keys = keyed(world, [()], agents=agents)
    with context as server:
        equal('the default agent', RPC.send(server, NOBODY).status, 401)
        equal('the open one', RPC.send(server, NOBODY, agent='other').status, 200)


@check
def the_tenant_does_not_lead_around_the_door(world):
    """The agent behind a tenant is guarded by its own section, whatever path the call came by."""
    agents = AGENTS.replace('default = true\n', 'default = true\n[agent.auth]\naccept = []\n', 1)
    context, keys = keyed(world, [()], agents=agents)
    with context as server:
        equal('the open default agent', RPC.send(server, NOBODY).status, 200)
        equal('the closed one by path', RPC.send(server, NOBODY, agent='other').status, 401)
        equal('the closed one by tenant, JSON-RPC', RPC.send(server, NOBODY, tenant='other').status, 401)
        equal('the closed one by tenant, gRPC', GRPC.send(server, NOBODY, agent='other').status, 16)
        equal(
            'the closed one by tenant, HTTP',
            server.call(
                'POST',
                '/other/message:send',
                {'A2A-Version': '1.0'},
                json.dumps({'message': {'messageId': 'm', 'role': 'ROLE_USER', 'parts': [{'text': 'x'}]}}).encode(),
            ).status,
            401,
        )


@check
def production_needs_authentication(world):
    for env, arguments in (
        ({}, ('--production',)),
        ({'NODE_ENV': 'production'}, ()),
        ({'FLY_APP_NAME': 'x'}, ()),
        ({'VERCEL': '1'}, ()),
        ({'K_SERVICE': 'x'}, ()),
        ({'NETLIFY': 'true'}, ()),
    ):
        with running(world, '', env=env, arguments=arguments) as server:
            outcome = RPC.send(server, NOBODY)
            equal(f'{env or arguments}', (outcome.status, outcome.code), (503, -32000))
            equal('the card', server.call('GET', '/.well-known/agent-card.json').status, 200)
    with running(world, '', env={'NETLIFY': 'true', 'NETLIFY_LOCAL': 'true'}) as server:
        equal('a local Netlify', RPC.send(server, NOBODY).status, 200)
    with running(world, '[server]\nproduction = true\n') as server:
        equal('by the file', RPC.send(server, NOBODY).status, 503)
        equal(
            'agent-native',
            BINDINGS['agent-native'].send(server, NOBODY).message[:33],
            'A2A authentication not configured',
        )


@check
def plain_http_beyond_loopback_is_refused_in_production(world):
    server = world.server(KEYS, arguments=('--production',), listen='0.0.0.0:0')
    try:
        with server:
            raise AssertionError('it listens on 0.0.0.0 without TLS')
    except NotServing:
        pass


@check
def an_open_agent_stays_on_loopback(world):
    for config, starts in (('[auth]\naccept = []\n', False), ('[auth]\naccept = []\nopen = true\n', True)):
        server = world.server(config, listen='0.0.0.0:0')
        try:
            with server:
                holds(starts, f'{config!r} listens everywhere')
        except NotServing:
            holds(not starts, f'{config!r} does not start')


@check
def the_mode_of_tools_can_be_set_by_agent(world):
    agents = WHOAMI + '[agent.limits]\ntool_mode = "readonly"\n'
    with running(world, '', agents=agents) as server:
        equal('mode', who(server, NOBODY)['mode'], 'readonly')
    with running(world, '[limits]\ntool_mode = "readonly"\n', agents=WHOAMI) as server:
        equal('mode for all', who(server, NOBODY)['mode'], 'readonly')
        request = XPR.sending('hello', metadata={'A2A_TOOL_MODE': 'full', 'toolMode': 'full'})
        outcome = XPR.play(server, request, [('A2A-Tool-Mode', 'full')])
        text = texts(outcome)
        holds('mode=readonly' in text, f'a caller widened it: {text}')


@check
def lists_push_configurations_and_contexts_are_the_callers(world):
    context, keys = keyed(world, [(), ()])
    with context as server:
        ana, ben = ({'Authorization': f'Bearer {key["key"]}', 'A2A-Version': '1.0'} for key in keys)
        sent = RPC.send(server, Credential(*ana.items()))
        task = sent.value['result']['task']

        def listed(headers):
            return [each['id'] for each in server.call('GET', '/tasks', headers).json['tasks']]

        equal("ana's list", listed(ana), [task['id']])
        equal("ben's list", listed(ben), [])
        push = f'/tasks/{task["id"]}/pushNotificationConfigs'
        config = json.dumps({'id': 'one', 'taskId': task['id'], 'url': 'https://hook.test/x'}).encode()
        made = server.call('POST', push, ana, config)
        holds(made.status in (200, 201), f'a configuration: {made}')
        for method, path, body in (('GET', push, b''), ('GET', f'{push}/one', b''), ('POST', push, config)):
            equal(f'{method} {path} by another', server.call(method, path, ben, body).status, 404)
        message = {'messageId': 'm', 'role': 'ROLE_USER', 'parts': [{'text': 'x'}], 'taskId': task['id']}
        told = server.call('POST', '/message:send', ben, json.dumps({'message': message}).encode())
        equal("a message to another's task", told.status, 404)
        # A context of another is a name like any other: what is in it stays out of sight.
        message = {'messageId': 'n', 'role': 'ROLE_USER', 'parts': [{'text': 'x'}], 'contextId': task['contextId']}
        server.call('POST', '/message:send', ben, json.dumps({'message': message}).encode())
        holds(task['id'] not in listed(ben), "ben's list has ana's task")
        equal("ana's list is as it was", listed(ana), [task['id']])
