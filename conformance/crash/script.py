"""The agent that is killed in mid-sentence, and what it must have said in the end.

The agent has two rules. A message that begins with "slow" is answered in chunks with pauses between them, so that a
kill nearly always falls into somebody's answer; every other message comes back at once as it was sent. Both texts are
known beforehand, which is what lets the judge tell a repeated chunk from a wanted one.
"""

import json

# Milliseconds to wait, then the chunk. Two chunks follow without a pause: they are committed in one step with the one
# before, so a reader may be cut off, and must be able to go on, between events of a single row.
CHUNKS = [
    (40, 'one '), (60, 'two '), (20, 'three '), (0, 'four '), (80, 'five '), (50, 'six '),
    (30, 'seven '), (0, 'eight '), (70, 'nine '), (40, 'ten '), (20, 'eleven '), (60, 'twelve'),
]
ARTIFACT = 'a1'
SLOW = 'slow'


def chunks_of(text):
    """The answer to a message, in the pieces in which it is given."""
    return [chunk for _, chunk in CHUNKS] if text.startswith(SLOW) else [text]


def config():
    """The configuration file of the server under test."""
    steps = ['{ status = "working" }']
    for number, (wait_ms, text) in enumerate(CHUNKS):
        if wait_ms:
            steps.append(f'{{ wait_ms = {wait_ms} }}')
        artifact = f'id = "{ARTIFACT}", text = {json.dumps(text)}'
        artifact += ', append = true' if number > 0 else ''
        artifact += ', last_chunk = true' if number == len(CHUNKS) - 1 else ''
        steps.append(f'{{ artifact = {{ {artifact} }} }}')
    steps.append('{ complete = "done" }')
    lines = ''.join(f'    {step},\n' for step in steps)
    return f'''[[agent]]
name = "crash"
kind = "script"
default = true

[[agent.rule]]
when = {{ text_matches = "^{SLOW}" }}
do = [
{lines}]

[[agent.rule]]
do = [{{ echo = true }}, {{ complete = "" }}]
'''
