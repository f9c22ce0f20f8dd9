"""Secrets of webhooks: they go to the receiver, and to nobody else."""

import json

import sdks
from hooks import Hooks, accepting, answering, closing
from registry import check, equal, holds
from setting import dead, new_secret, send, serving, told

TOKEN, CREDENTIALS, QUERY = 'tok-7f3a9c', 'cred-5b1e8d', 'query-2d4c6f'
SECRETS = {'token': TOKEN, 'credentials': CREDENTIALS}


def absent(what, shown, secrets):
    text = shown if isinstance(shown, str) else json.dumps(shown)
    for name, secret in secrets.items():
        holds(secret not in text, f'{what} shows the {name}: {text[:300]}')


def sdk_check(name):
    def promise(world):
        with sdks.customer_of(world, name) as (_, hooks, _, customer):
            for binding in sdks.BINDINGS:
                path = f'/{binding.replace("+", "-")}'
                hook = {'id': 'mine', 'url': hooks.add(path), 'token': TOKEN, 'scheme': 'Bearer',
                        'credentials': CREDENTIALS}
                task = customer.ask('register', binding=binding, how='inline', **hook)['task']
                shown = customer.ask('kept', binding=binding, task=task, id='mine')
                holds(hook['url'] in json.dumps(shown['get']), f'{binding}: get does not show the webhook: {shown}')
                absent(f'{name} over {binding}', shown, SECRETS)

    promise.__name__ = f'the_sdk_{name.replace("-", "_").replace(".", "_")}_is_shown_no_secrets'
    promise.__module__ = __name__
    return check(promise)


for peer in sdks.PEERS:
    sdk_check(peer)


@check
def nothing_is_found_in_logs_lists_or_errors(world):
    """With everything going wrong that may, at the most talkative level of the log."""
    secret = new_secret()
    talkative = {'SABIR_LOG': 'trace'}
    with serving(world, 'attempts = 1', secrets=[secret], env=talkative) as (server, hooks), Hooks() as others:
        hook = {'token': TOKEN, 'scheme': 'Bearer', 'credentials': CREDENTIALS}
        for path, way in {'/gone': answering(410), '/broken': answering(500), '/good': accepting}.items():
            send(server, hooks.add(f'{path}?key={QUERY}', way), **hook)
        send(server, others.add(f'/cut?key={QUERY}', closing), **hook)
        send(server, f'http://10.0.0.1/hook?key={QUERY}', **hook)
        told(hooks, f'/good?key={QUERY}')
        # Four events each, and at least one of the receiver that wants no more.
        listed = dead(server, 13)
        shown = [server.sabir('push', 'list', '--config', server.config).stdout, json.dumps(listed)]
        shown += [json.dumps(server.command('push', 'show', str(one['number']))) for one in listed]
        shown += [server.sabir('push', 'show', str(one['number']), '--config', server.config).stdout for one in listed]
        shown.append(server.call('GET', '/metrics').body.decode())
        everything = {**SECRETS, 'query of the URL': QUERY, 'webhook secret': secret.removeprefix('whsec_')}
        for text in shown:
            absent('push list or show', text, everything)
        absent('the log', server.said(), everything)
        done = server.sabir('push', 'test', hooks.add(f'/test?key={QUERY}', answering(500)), '--config', server.config,
                            '--scheme', 'Bearer', '--credentials', 'env:HOOK_TOKEN', '--token', 'env:HOOK_NAME',
                            env={'HOOK_TOKEN': CREDENTIALS, 'HOOK_NAME': TOKEN})
        equal('exit of push test on a receiver that refuses', done.returncode, 1)
        absent('push test', done.stdout + done.stderr, everything)
