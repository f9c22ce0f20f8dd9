"""What the agents behind the Python servers do, in steps that know no SDK.

The first word of the message decides; `behaviour.mjs` is the same for JavaScript. Parts are written as 1.0 has them,
and `kinds` turns them into what 0.2 and 0.3 call a part.

    echo …    an artifact with the rest of the text; any other word does the same with the whole text
    message   a direct message, no task
    slow N    N chunks of one artifact, 0.3 s apart
    ask       input-required; the next message to the task is the answer, and becomes the artifact
    auth      auth-required; the next message to the task ends it
    fail, reject
    files     one artifact with parts of all kinds
    hold      works until it is canceled
"""

import base64

CHUNK_SECONDS = 0.3
RAW = b'bytes \x00\xff\x1b of a file'


def steps(text, answering, base):
    """The steps of one turn. `answering` is whether the task waits for this message; `base` is where files are."""
    word, _, rest = text.strip().partition(' ')
    if answering:
        yield ('status', 'working', None)
        yield ('artifact', artifact('answer', [{'text': text}]), {'append': False, 'lastChunk': True})
        yield ('status', 'completed', 'thank you')
        return
    if word == 'message':
        yield ('message', [{'text': rest or 'a direct message'}])
        return
    yield ('task', 'submitted')
    yield ('status', 'working', None)
    match word:
        case 'slow':
            count = int(rest or '3')
            for number in range(1, count + 1):
                yield ('sleep', CHUNK_SECONDS)
                chunk = artifact('slow', [{'text': f'chunk {number} '}])
                yield ('artifact', chunk, {'append': number > 1, 'lastChunk': number == count})
            yield ('status', 'completed', None)
        case 'ask':
            yield ('status', 'input-required', 'Which city?')
        case 'auth':
            yield ('status', 'auth-required', 'Log in at https://login.example and say when you have')
        case 'fail':
            yield ('status', 'failed', 'it did not work')
        case 'reject':
            yield ('status', 'rejected', 'not my trade')
        case 'files':
            parts = [
                {'text': 'one of each'},
                {'raw': base64.b64encode(RAW).decode(), 'filename': 'raw.bin', 'mediaType': 'application/octet-stream'},
                {'url': f'{base}/files/paper.txt', 'filename': 'paper.txt', 'mediaType': 'text/plain'},
                {'data': {'count': 3, 'list': [1, 'two', True]}},
            ]
            yield ('artifact', artifact('files', parts), {'append': False, 'lastChunk': True})
            yield ('status', 'completed', None)
        case 'hold':
            yield ('hold',)
        case _:
            said = rest if word == 'echo' else text
            yield ('artifact', artifact('echo', [{'text': said}]), {'append': False, 'lastChunk': True})
            yield ('status', 'completed', None)


def artifact(name, parts):
    return {'artifactId': f'{name}-1', 'name': name, 'parts': parts}


def kinds(part, key='kind'):
    """A 1.0 part as 0.2 and 0.3 write it, or 0.1 with `key='type'`."""
    match part:
        case {'text': text}:
            return {key: 'text', 'text': text}
        case {'data': data}:
            return {key: 'data', 'data': data}
        case {'raw': raw}:
            return {key: 'file', 'file': {'bytes': raw, 'name': part['filename'], 'mimeType': part['mediaType']}}
        case {'url': url}:
            return {key: 'file', 'file': {'uri': url, 'name': part['filename'], 'mimeType': part['mediaType']}}


def state(name):
    """The 1.0 name of a state."""
    return 'TASK_STATE_' + name.upper().replace('-', '_')


def skills():
    return [{
        'id': 'play', 'name': 'Play', 'description': 'Does what the first word says', 'tags': ['test'],
        'examples': ['echo hello', 'slow 3', 'ask'],
    }]
