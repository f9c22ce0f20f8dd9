"""The surface itself: help, version, completion."""

import shutil
import subprocess

from harness import NotMeasured, contains, equal, holds
from registry import requirement

COMMANDS = [
    'card get',
    'send',
    'task get',
    'task cancel',
    'task list',
    'task subscribe',
    'task download',
    'task push-config create',
    'task push-config get',
    'task push-config list',
    'task push-config delete',
    'task push-config listen',
    'auth login',
    'auth status',
    'auth logout',
    'config show',
    'conformance',
    'completion',
    'chat',
    'demo-server',
    'serve',
    'card',
    'task',
    'task push-config',
    'auth',
    'config',
]


@requirement('A2ACLI_CLI_001')
def help_is_there_for_every_command(case):
    nowhere = {'A2ACLI_AGENT_CARD': 'http://127.0.0.1:1'}
    whole = case.run('help', env=nowhere).exits(0)
    for word in ('card', 'send', 'task', 'auth', 'config', 'conformance', 'completion', 'chat', 'demo-server'):
        contains(whole.out, word, 'sabir help')
    for command in COMMANDS:
        words = command.split()
        texts = [
            case.run(*arguments, env=nowhere).exits(0)
            for arguments in (('help', *words), (*words, '--help'), (*words, '-h'))
        ]
        for run in texts:
            contains(run.out, 'Usage', f'the help of {command}')
            equal(run.err, '', f'stderr of the help of {command}')
    for flag in ('--help', '-h'):
        contains(case.run(flag, env=nowhere).exits(0).out, 'Usage', flag)


@requirement('A2ACLI_CLI_001')
def the_version_is_told(case):
    answers = {case.run(flag).exits(0).out for flag in ('-v', '--version')}
    equal(len(answers), 1, 'answers')
    name, _, number = answers.pop().strip().partition(' ')
    holds(name == 'sabir' and number[:1].isdigit(), f'{name} {number}')
    # `-v` is the version everywhere, and never short for --verbose.
    equal(case.run('send', '-v').out.split()[:1], ['sabir'], 'send -v')


@requirement('A2ACLI_CLI_001')
def help_names_flags_variables_and_defaults(case):
    text = case.run('send', '--help').exits(0).out
    for flag in (
        '--agent-card',
        '--a2a-version',
        '--transport',
        '--output',
        '--stream',
        '--wait',
        '--async',
        '--poll-interval',
        '--timeout',
        '--context-id',
        '--task-id',
        '--bearer',
        '--api-key',
        '--svc-param',
        '--metadata',
        '--insecure',
        '--config',
        '--verbose',
        '--debug',
        '--help',
        '--version',
        '--text',
        '--file',
        '--data',
        '--media-type',
    ):
        contains(text, flag, 'the help of send')
    for name in ('AGENT_CARD', 'TRANSPORT', 'OUTPUT', 'WAIT', 'ASYNC', 'POLL_INTERVAL', 'TIMEOUT', 'BEARER', 'API_KEY'):
        contains(text, f'A2ACLI_{name}', 'the help of send')
    holds('A2ACLI_STREAM' not in text, 'there is no variable for --stream')


def completed(script, line):
    """What bash offers after these words."""
    words = line.split(' ')
    program = (
        f'source {script}; COMP_WORDS=({" ".join(repr(w) for w in words)}); COMP_CWORD={len(words) - 1}; '
        f'COMP_LINE={line!r}; COMP_POINT={len(line)}; '
        'f=$(complete -p sabir | sed "s/.*-F \\([^ ]*\\).*/\\1/"); '
        f'$f sabir {words[-1]!r} {words[-2]!r}; printf "%s\\n" "${{COMPREPLY[@]}}"'
    )
    done = subprocess.run(['bash', '--norc', '-c', program], capture_output=True, text=True, timeout=20)
    return done.stdout.split(), done.stderr


@requirement('A2ACLI_CLI_002')
def bash_loads_the_script_and_completes(case):
    run = case.run('completion', 'bash').exits(0)
    script = case.file('sabir.bash', run.out)
    for line, wanted in (
        ('sabir ta', 'task'),
        ('sabir task su', 'subscribe'),
        ('sabir task push-config cr', 'create'),
        ('sabir send --ag', '--agent-card'),
    ):
        offered, errors = completed(script, line)
        holds(any(word.startswith(wanted) for word in offered), f'{line!r} offers {offered} {errors}')


@requirement('A2ACLI_CLI_002')
def every_shell_gets_a_script(case):
    for shell, mark in (
        ('bash', 'complete'),
        ('zsh', '#compdef sabir'),
        ('fish', '--command sabir'),
        ('powershell', 'Register-ArgumentCompleter'),
        ('elvish', 'edit:completion'),
    ):
        run = case.run('completion', shell, env={'A2ACLI_AGENT_CARD': 'http://127.0.0.1:1'}).exits(0)
        contains(run.out, mark, f'the script for {shell}')
        contains(run.out, 'SABIR_COMPLETE', f'the script for {shell}')
    case.run('completion', 'tcsh', '-o', 'json').fails('A2ACLI_ERR_USAGE', 2)


@requirement('A2ACLI_CLI_002')
def other_shells_load_the_script(case):
    loads = {
        'zsh': ['zsh', '-f', '-c', 'autoload -U compinit && compinit -u -D && source {} && print -r -- $_comps[sabir]'],
        'fish': ['fish', '--no-config', '-c', 'source {}; complete -C "sabir ta"'],
    }
    there = [shell for shell in loads if shutil.which(shell)]
    for shell in there:
        script = case.file(f'script.{shell}', case.run('completion', shell).exits(0).out)
        command = [word.format(script) for word in loads[shell]]
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, env=case.environment({}))
        equal(done.returncode, 0, f'{shell}: {done.stderr}')
        contains(done.stdout, 'sabir' if shell == 'zsh' else 'task', f'{shell}: {done.stderr}')
    if len(there) < len(loads):
        raise NotMeasured(f'not installed: {", ".join(sorted(set(loads) - set(there)))}')
