"""`task download`: artifacts become files, in the given directory and nowhere else."""

import base64
import json

import grammar
from harness import contains, equal, holds, lacks
from registry import ALL, LIVE, requirement
from stub import Http, task


def done(*artifacts):
    return task(
        't-1',
        'TASK_STATE_COMPLETED',
        artifacts=[
            {'artifactId': f'a-{n}', 'name': name, 'parts': list(parts)} for n, (name, parts) in enumerate(artifacts)
        ],
    )


def saved(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob('*') if path.is_file()}


@requirement('A2ACLI_DOWNLOAD_001', agents=LIVE, bindings=ALL)
def the_artifacts_of_a_live_task_are_written(case):
    made = case.task('files')
    # A URL of an example leads nowhere; one of the agent itself does.
    brings = lambda part: 'url' not in part or part['url'].startswith(case.ref)  # noqa: E731
    with_content = [a for a in made['artifacts'] if all(brings(part) for part in a['parts'])]
    wanted = [part for a in with_content for part in a['parts']]
    holds(wanted, f'artifacts with content: {made}')
    flags = [flag for a in with_content for flag in ('--artifact', a['artifactId'])]
    run = case.call('task', 'download', made['id'], '--dir', 'out', *flags).exits(0)
    files = saved(case.cwd / 'out')
    for part in wanted:
        if 'raw' in part:
            holds(base64.b64decode(part['raw']) in files.values(), f'{part} in {files}')
        elif 'text' in part:
            holds(
                any(content.strip() == part['text'].strip().encode() for content in files.values()),
                f'{part} in {files}',
            )
        elif 'data' in part:
            holds(any(is_json(content, part['data']) for content in files.values()), f'{part} in {files}')
    shown = grammar.parse(run.out)
    equal(len(grammar.values(shown, 'Saved')), len(files), 'Saved')
    equal(grammar.last(shown, 'Task ID'), made['id'], 'Task ID')


def is_json(content, value):
    try:
        return json.loads(content) == value
    except ValueError:
        return False


@requirement('A2ACLI_DOWNLOAD_001', bindings=ALL)
def hostile_names_stay_in_the_directory(case):
    names = [
        '../../escape.txt',
        '/etc/absolute.txt',
        'a/../../b.txt',
        '..',
        '.',
        '',
        'CON',
        'nul.txt',
        'with\nbreak.txt',
        'esc\x1b[31m.txt',
        'back\\slash\\..\\c.txt',
        '....//x',
        'x' * 400 + '.txt',
        '\u202egnp.exe',
        '~/.bashrc',
        '-rf',
    ]
    parts = [
        {'raw': base64.b64encode(f'content {n}'.encode()).decode(), 'filename': name} for n, name in enumerate(names)
    ]
    server = case.stub(on={'GetTask': lambda _: done(('../name', parts))})
    before = case.tree()
    run = case.run('task', 'download', 't-1', '--dir', 'deep/out', '-a', server.url).exits(0)
    grammar.parse(run.out)
    files = saved(case.cwd / 'deep' / 'out')
    equal(sorted(files.values()), sorted(f'content {n}'.encode() for n in range(len(names))), 'contents')
    new = {name for name in case.tree() if name not in before and '/.cache/' not in name}
    holds(all(name.startswith('work/deep/out/') for name in new), f'files outside: {new}')
    holds(all('/' not in name for name in files), f'directories inside: {list(files)}')
    for name in files:
        stem = name.partition('.')[0].upper()
        holds(stem not in ('CON', 'NUL') and not any(ord(c) < 32 for c in name), f'a name that harms: {name!r}')


@requirement('A2ACLI_DOWNLOAD_001', bindings=ALL)
def an_existing_file_is_kept_without_force(case):
    server = case.stub(on={'GetTask': lambda _: done(('x', [{'raw': 'bmV3', 'filename': 'keep.txt'}]))})
    case.file('keep.txt', 'old')
    run = case.run('task', 'download', 't-1', '-a', server.url, '-o', 'json')
    run.fails('SABIR_ERR_EXISTS', 1)
    equal((case.cwd / 'keep.txt').read_bytes(), b'old', 'the file without --force')
    run = case.run('task', 'download', 't-1', '--force', '-a', server.url, '-o', 'json').exits(0)
    equal((case.cwd / 'keep.txt').read_bytes(), b'new', 'the file with --force')
    part = run.json['artifacts'][0]['parts'][0]
    contains(json.dumps(part['metadata']), 'keep.txt', 'the path in the metadata of the part')
    holds(all(':' in key for key in part['metadata']), f'keys are URIs: {part["metadata"]}')
    # A link is not followed out of the directory.
    (case.cwd / 'link').mkdir()
    (case.cwd / 'link' / 'keep.txt').symlink_to(case.file('victim.txt', 'precious'))
    case.run('task', 'download', 't-1', '--dir', 'link', '--force', '-a', server.url, '-o', 'json')
    equal((case.cwd / 'victim.txt').read_bytes(), b'precious', 'the target of a link')


@requirement('A2ACLI_DOWNLOAD_001')
def a_url_is_fetched_without_credentials_and_within_the_limit(case):
    files = case.stub(files={'/far.csv': Http(200, b'a,b\n1,2\n', 'text/csv'), '/big.bin': Http(200, b'x' * 5000)})
    parts = {
        'csv': [{'url': f'{files.url}/far.csv'}],
        'big': [{'url': f'{files.url}/big.bin'}],
        'odd': [{'url': 'file:///etc/passwd', 'filename': 'odd.txt'}],
    }
    server = case.stub(
        on={'GetTask': lambda _: done(*parts.items())},
        schemes={'staff': {'httpAuthSecurityScheme': {'scheme': 'Bearer'}}},
    )
    base = ('task', 'download', 't-1', '-a', server.url, '--bearer', 'hush-hush-token', '-o', 'json')
    case.run(*base, '--artifact', 'a-0').exits(0)
    equal(list(saved(case.cwd).values()), [b'a,b\n1,2\n'], 'files')
    for request in files.requests:
        lacks(json.dumps(request.headers), 'hush-hush', 'headers to the host of the file')
    holds(case.run(*base, '--artifact', 'a-1', '--max-bytes', '1000', '--dir', 'two').code != 0, 'the limit holds')
    holds(case.run(*base, '--artifact', 'a-2', '--dir', 'three').code != 0, 'file: is not fetched')
    equal(len(saved(case.cwd)), 1, 'files in the end')
