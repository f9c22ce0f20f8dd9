"""What the crash run plays: the agent that works, the webhooks that are registered, and how those fail.

The agent says something several times in a task, with pauses between, so that kills fall between events, between an
event and its delivery, and into deliveries. Every event of a task is unlike all others of it, which lets the judge know
an event by what it says alone.
"""

import base64
import json

CHUNKS = ['one ', 'two ', 'three ', 'four ', 'five']
ASKS = 'ask'
# Short, so that a receiver that never answers is found out within the run; everything else is as it is shipped, but
# for the attempts: an event that fails as often as the shipped limit is rare, and would be no loss but a rule.
TIMEOUT_SECONDS = 2
ATTEMPTS = 30
# How often receivers fail, and how often one delivery may fail before it is let through: delays double, and a run
# should end.
FAILS = 0.3
FAILS_IN_A_ROW_MAX = 4

# What a receiver does with a request, by weight. Only the first group has accepted it.
ACCEPTS = {'200': 8, '202': 1, '204': 1, 'torn': 1}
REFUSES = {'500': 3, '503': 3, 'cut': 3, 'silence': 2, 'lost': 3}
ANSWERS = {
    'torn': 'a 200 whose own body breaks off',
    '503': 'a 503 with Retry-After',
    'cut': 'a connection that is closed in the middle of the request',
    'silence': 'no answer within the time of an attempt',
    'lost': 'a request that was kept, and whose answer was lost',
}


def config(secret):
    """The configuration file of the server under test; `secret` is the name of the file with the webhook secret."""
    work = ['{ status = "at work" }']
    for number, text in enumerate(CHUNKS):
        append = ', append = true' if number else ''
        work += ['{ wait_ms = 120 }', f'{{ artifact = {{ id = "a1", text = {json.dumps(text)}{append} }} }}']
    # Two events in one commit: the outbox owes both at once.
    work += ['{ status = "nearly" }', '{ complete = "done" }']
    steps = ''.join(f'    {step},\n' for step in work)
    return f'''[egress]
allow = ["127.0.0.0/8"]

[push]
attempts = {ATTEMPTS}
timeout_seconds = {TIMEOUT_SECONDS}
webhook_secret = "file:{secret}"

[[agent]]
name = "busy"
kind = "script"
default = true
[agent.card.capabilities]
push_notifications = true

[[agent.rule]]
when = {{ text_matches = "^{ASKS}" }}
do = [{{ status = "thinking" }}, {{ ask_input = "which one?" }}]
then = [
{steps}]

[[agent.rule]]
do = [
{steps}]
'''


def credentials(rng, word):
    """A scheme and its credentials as they are registered, or `None`; and the headers they must lead to."""
    kind = rng.choice(['Bearer', 'Basic', 'ApiKey', None])
    if kind is None:
        return None, {'authorization': None, 'x-api-key': None}
    if kind == 'Basic':
        encoded = base64.b64encode(f'hook:{word}'.encode()).decode()
        return (kind, f'hook:{word}'), {'authorization': f'Basic {encoded}', 'x-api-key': None}
    return (kind, word), {'authorization': f'{kind} {word}', 'x-api-key': word if kind == 'ApiKey' else None}
