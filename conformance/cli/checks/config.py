"""Settings: five levels, one winner, and always the place it came from. Also the six defaults."""

import stat

import grammar
from harness import contains, equal, lacks
from registry import requirement
from stub import task


def setting(case, name, *arguments, **options):
    """The effective value of a setting, and its source, by `config show`."""
    value = case.run('config', 'show', '-o', 'json', *arguments, **options).exits(0).json
    (found,) = [entry for entry in value['settings'] if entry['name'] == name]
    return found['value'], found['source'], found.get('origin')


def global_file(case, text):
    path = case.home / '.config' / 'a2a-cli' / '.env'
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o600)
    return path


SETTINGS = {
    # name: values for flag, environment, local file, global file
    'poll-interval': ('5s', '6s', '7s', '8s'),
    'timeout': ('11s', '12s', '13s', '14s'),
    'context-id': ('c-flag', 'c-env', 'c-local', 'c-global'),
    'agent-card': ('http://flag.example', 'http://env.example', 'http://local.example', 'http://global.example'),
}


@requirement('A2ACLI_CONFIG_002')
def five_levels_each_beaten_by_the_one_above(case):
    for name, values in SETTINGS.items():
        variable = 'A2ACLI_' + name.upper().replace('-', '_')
        by_flag, by_env, by_local, by_global = values
        equal(setting(case, name)[1], 'default', f'{name} at the start')
        path = global_file(case, f'{variable}={by_global}\n')
        value, source, origin = setting(case, name)
        equal((value, source), (by_global, 'file'), f'{name} from the global file')
        contains(str(origin), str(path), 'origin')
        local = case.file('.env', f'# a comment\n\nexport {variable}="{by_local}"\nFOREIGN=1\n')
        value, source, origin = setting(case, name)
        equal((value, source), (by_local, 'file'), f'{name} from the local file')
        contains(str(origin), str(local), 'origin')
        equal(setting(case, name, env={variable: by_env}), (by_env, 'env', variable), f'{name} from the environment')
        equal(
            setting(case, name, f'--{name}', by_flag, env={variable: by_env})[:2], (by_flag, 'flag'), f'{name} by flag'
        )
        equal(setting(case, name, env={variable: ''})[0], by_local, f'{name} with an empty variable')
        local.unlink()
        path.unlink()


@requirement('A2ACLI_CONFIG_002')
def files_are_found_and_replaced(case):
    case.file('.env', 'A2ACLI_TIMEOUT=21s\n')
    inner = case.cwd / 'a' / 'b'
    inner.mkdir(parents=True)
    equal(setting(case, 'timeout', cwd=inner)[0], '21s', 'the file of a parent directory')
    case.file('a/.env', 'A2ACLI_POLL_INTERVAL=9s\n')
    equal(setting(case, 'poll-interval', cwd=inner)[0], '9s', 'the nearest file')
    equal(setting(case, 'timeout', cwd=inner)[1], 'default', 'the nearest file only')
    other = case.file('other/ledger.env', "A2ACLI_TIMEOUT='22s'\n")
    global_file(case, 'A2ACLI_TIMEOUT=23s\nA2ACLI_CONTEXT_ID=c-global\n')
    equal(setting(case, 'timeout', '--config', other)[0], '22s', '--config replaces the local file')
    equal(setting(case, 'context-id', '--config', other)[0], 'c-global', 'but not the global one')
    equal(setting(case, 'timeout', env={'A2ACLI_CONFIG': other})[0], '22s', 'A2ACLI_CONFIG')
    equal(setting(case, 'timeout', '--config', other, env={'A2ACLI_TIMEOUT': '24s'})[0], '24s', 'variables still win')
    case.run('config', 'show', '--config', 'none.env', '-o', 'json').fails('A2ACLI_ERR_USAGE', 2)
    bad = case.file('bad.env', 'A2ACLI_TIMEOUT=1s\nthis is no setting\n')
    error = case.run('config', 'show', '--config', bad, '-o', 'json').fails('A2ACLI_ERR_USAGE', 2)
    contains(error['message'], 'bad.env', 'the file is named')
    contains(error['message'], '2', 'the line is named')


@requirement('A2ACLI_CONFIG_002')
def settings_are_selected_per_agent(case):
    bearer = {'staff': {'httpAuthSecurityScheme': {'scheme': 'Bearer'}}}
    servers = [case.stub(schemes=bearer) for _ in range(2)]
    for number, server in enumerate(servers):
        text = f'A2ACLI_AGENT_CARD={server.url}\nA2ACLI_BEARER=token-number-{number}\n'
        case.file(f'{number}.env', text).chmod(0o600)
        case.run('task', 'list', '--config', f'{number}.env', '-o', 'json').exits(0)
    equal(
        [[call.headers.get('authorization') for call in server.calls] for server in servers],
        [['Bearer token-number-0'], ['Bearer token-number-1']],
        'credentials',
    )


@requirement('A2ACLI_CONFIG_002')
def config_show_names_value_and_source_in_text(case):
    run = case.run('config', 'show', '--poll-interval', '5s', env={'A2ACLI_OUTPUT': 'text'}).exits(0)
    lines = dict(line.split(': ', 1) for line in run.out.splitlines())
    equal(lines['poll-interval'], '5s (flag)', 'poll-interval')
    equal(lines['output'], 'text (env A2ACLI_OUTPUT)', 'output')
    equal(lines['timeout'], 'none (default)', 'timeout')
    shown = case.run('config', 'show', env={'A2ACLI_STREAM': '1'}).exits(0).out
    lacks(shown, 'A2ACLI_STREAM', 'no variable sets --stream')


@requirement('A2ACLI_CONFIG_001')
def persisted_settings_are_shown_and_edited_by_the_user(case):
    path = global_file(case, 'A2ACLI_BEARER=hush-hush-token\nA2ACLI_TIMEOUT=9s\n')
    before = path.read_bytes()
    run = case.run('config', 'show').exits(0)
    contains(run.out, '[redacted]', 'config show')
    contains(run.out, str(path), 'the file is named')
    lacks(run.out + run.err, 'hush-hush-token', 'config show')
    path.write_text('A2ACLI_TIMEOUT=10s\n')
    equal(setting(case, 'timeout')[0], '10s', 'after an edit')
    equal(setting(case, 'bearer')[1], 'default', 'after a removal')
    path.write_bytes(before)
    server = case.stub()
    case.run('send', 'hi', '-a', server.url, '-o', 'json').exits(0)
    equal(path.read_bytes(), before, 'the tool does not edit settings')
    path.chmod(0o644)
    contains(case.run('config', 'show').exits(0).err.lower(), 'warning', 'a secret that others can read')
    xdg = case.scratch / 'xdg'
    (xdg / 'a2a-cli').mkdir(parents=True)
    (xdg / 'a2a-cli' / '.env').write_text('A2ACLI_TIMEOUT=31s\n')
    equal(setting(case, 'timeout', env={'XDG_CONFIG_HOME': xdg})[0], '31s', 'XDG_CONFIG_HOME')


@requirement('A2ACLI_CONFIG_001')
def no_state_of_a_session_is_persisted(case):
    server = case.stub()
    made = case.run('send', 'hi', '-a', server.url, '-o', 'json').exits(0).json['task']
    for name, content in case.tree().items():
        lacks(content.decode(errors='replace'), made['contextId'], f'the file {name}')
        if '/.config/' in name:
            mode = stat.S_IMODE((case.scratch / name).stat().st_mode)
            equal(mode & 0o077, 0, f'mode of {name}')


# --- The six defaults -------------------------------------------------------------------------------------------------


def default(case, key, *proven):
    case.results.notes['defaults'].setdefault(key, set()).update(proven)


@requirement('A2ACLI_DEFAULT_001')
def transport_follows_the_card(case):
    server = case.stub(bindings=('HTTP+JSON', 'JSONRPC'))
    case.run('task', 'list', '-a', server.url, '-o', 'json').exits(0)
    equal(server.calls[-1].binding, 'HTTP+JSON', 'the first entry')
    default(case, 'transport_server_preference_order', 'shipped')
    case.run('task', 'list', '-a', server.url, '-o', 'json', '--transport', 'JSONRPC').exits(0)
    equal(server.calls[-1].binding, 'JSONRPC', 'with --transport')
    default(case, 'transport_server_preference_order', 'overridable')


@requirement('A2ACLI_DEFAULT_001')
def send_waits_unless_told(case):
    server = case.stub(
        streaming=False,
        on={
            'SendMessage': lambda _: {'task': task('t-1', 'TASK_STATE_WORKING')},
            'GetTask': lambda _: task('t-1', 'TASK_STATE_COMPLETED'),
        },
    )
    base = ('send', 'hi', '-a', server.url, '-o', 'json', '--poll-interval', '100ms')
    equal(case.run(*base).exits(0).json['task']['status']['state'], 'TASK_STATE_COMPLETED', 'by default')
    default(case, 'task_completion_wait_by_default', 'shipped')
    equal(case.run(*base, '--async').exits(0).json['task']['status']['state'], 'TASK_STATE_WORKING', 'with --async')
    default(case, 'task_completion_wait_by_default', 'overridable')


@requirement('A2ACLI_DEFAULT_001')
def the_output_is_text_and_concise_unless_told(case):
    history = [{'messageId': 'm-1', 'role': 'ROLE_USER', 'parts': [{'text': 'the question'}]}]
    full = task('t-1', 'TASK_STATE_COMPLETED', history=history, metadata={'origin': 'elsewhere'})
    server = case.stub(on={'GetTask': lambda _: full})
    base = ('task', 'get', 't-1', '-a', server.url)
    short = case.run(*base).exits(0)
    equal(grammar.last(grammar.parse(short.out), 'Task ID'), 't-1', 'text by default')
    default(case, 'output_human_readable_text', 'shipped')
    equal(case.run(*base, '-o', 'json').exits(0).json['id'], 't-1', 'with --output')
    default(case, 'output_human_readable_text', 'overridable')
    lacks(short.out, 'elsewhere', 'concise by default')
    default(case, 'detail_level_concise', 'shipped')
    contains(case.run(*base, '--verbose').exits(0).out, 'elsewhere', 'with --verbose')
    default(case, 'detail_level_concise', 'overridable')


@requirement('A2ACLI_DEFAULT_001')
def the_version_is_the_highest_in_common(case):
    server = case.stub(bindings=('JSONRPC',))
    old = {**server.card['supportedInterfaces'][0], 'protocolVersion': '0.3'}
    server.card['supportedInterfaces'] = [old, *server.card['supportedInterfaces']]
    case.run('task', 'list', '-a', server.url, '-o', 'json').exits(0)
    equal(server.calls[-1].headers.get('a2a-version'), '1.0', 'by default')
    default(case, 'protocol_version_highest_mutual', 'shipped')
    case.run('task', 'get', 't-1', '-a', server.url, '-o', 'json', '--a2a-version', '0.3')
    last = [request for request in server.requests if request.path == '/rpc'][-1]
    equal(last.headers.get('a2a-version') or '0.3', '0.3', 'with --a2a-version')
    contains(last.body.decode(), 'tasks/get', 'the request is one of 0.3')
    default(case, 'protocol_version_highest_mutual', 'overridable')


@requirement('A2ACLI_DEFAULT_001')
def tls_is_verified_unless_told(case):
    import pki

    server = case.stub(tls=pki.Tls(pki.Authority(case.scratch / 'pki')))
    case.run('card', 'get', '-a', server.url, '-o', 'json').fails('A2ACLI_ERR_UNREACHABLE', 3)
    default(case, 'transport_security_tls_on', 'shipped')
    run = case.run('card', 'get', '-a', server.url, '-o', 'json', '--insecure').exits(0)
    contains(run.err.lower(), 'warning', 'stderr')
    default(case, 'transport_security_tls_on', 'overridable')


@requirement('A2ACLI_DEFAULT_001')
def help_shows_the_effective_defaults(case):
    text = case.run('send', '--help').exits(0).out
    for flag in (
        '--transport',
        '--async',
        '--wait',
        '--output',
        '--verbose',
        '--a2a-version',
        '--insecure',
        '--poll-interval',
        '--timeout',
    ):
        contains(text, flag, 'the help')
    contains(text, '2s', 'the help shows the poll interval')
    contains(text, 'card order', 'the help shows the order of transports')
    changed = case.run('send', '--help', env={'A2ACLI_POLL_INTERVAL': '17s', 'A2ACLI_OUTPUT': 'json'}).exits(0).out
    contains(changed, '17s', 'the help shows what is effective')
    contains(changed, 'A2ACLI_POLL_INTERVAL', 'and where it comes from')
