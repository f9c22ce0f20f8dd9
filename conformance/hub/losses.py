"""What differs between a direct call and one through the hub, why, and what exactly is seen instead.

A cell with a loss passes only if what is seen is what the loss says. A loss that changes nothing in a cell is not
counted there.
"""

import dataclasses
import typing

from seen import Seen, refused


@dataclasses.dataclass(frozen=True)
class Loss:
    name: str
    # operation/probe
    probes: tuple
    # Of the caller's dialect and the name of the upstream.
    holds: typing.Callable
    # Of what was seen directly, everything that was, and the caller's dialect: what is seen here.
    change: typing.Callable
    why: str


# A send to their own name of a settled task opens a new one under it.
NAMING = ('0.1', 'XPR')


def settled(told, there, dialect):
    return there['again'] if dialect in NAMING else refused('UnsupportedOperation')


def nameless(told, there, dialect):
    """Files without their names and types."""
    artifacts = tuple(
        (name, tuple((*part[:2], '', '') if part[0] in ('raw', 'url') else part for part in parts))
        for name, parts in told.artifacts
    )
    return told.but(artifacts=artifacts)


LOSSES = (
    Loss(
        'settled',
        ('error/send-settled',),
        lambda dialect, upstream: True,
        settled,
        'The hub answers for tasks that have settled, as A2A 1.0 does: `UnsupportedOperation`. Agents of 0.3 have '
        'numbers of their own for it; those of 0.1, agent-native and XPR write over the task or open another. In 0.1 '
        'and XPR, where callers name tasks, the name moves on to a new one.',
    ),
    Loss(
        'settled',
        ('input-required/answer',),
        lambda dialect, upstream: upstream == 'xpr' and dialect not in NAMING,
        settled,
        'An XPR agent cannot ask: its task is completed, and takes no more messages here.',
    ),
    Loss(
        'settled',
        ('error/cancel-settled',),
        lambda dialect, upstream: upstream == 'agent-native',
        lambda told, there, dialect: refused('TaskNotCancelable'),
        'agent-native cancels even what has completed; here a settled task stays as it is.',
    ),
    Loss(
        'failure',
        ('error/fail',),
        lambda dialect, upstream: upstream == 'agent-native',
        lambda told, there, dialect: Seen('failed', 'it did not work'),
        'agent-native answers a send that fails with an error (-32000), and a task that fails with a failed task. The '
        'hub asks for a task.',
    ),
    Loss(
        'failure',
        ('error/fail',),
        lambda dialect, upstream: upstream == 'xpr',
        lambda told, there, dialect: Seen('failed', 'the agent failed: it did not work'),
        'An XPR agent answers a send that fails with an error (-32603). Here there is a task by then: it fails, with the '
        'words of the error.',
    ),
    Loss(
        'files',
        ('send/files',),
        lambda dialect, upstream: upstream == 'java-0.3-rest',
        nameless,
        'The SDK for Java writes neither the name nor the media type of a file over HTTP+JSON.',
    ),
)


def met(dialect, upstream, probe):
    return [loss for loss in LOSSES if probe in loss.probes and loss.holds(dialect, upstream)]


def absent(dialect, upstream, operation):
    """Why there is no such cell, if there is none."""
    if dialect == 'XPR' and operation == 'stream':
        return 'XPR has no streams'
    if upstream == 'agnt' and operation not in ('send', 'stream'):
        return 'AGNT has no tasks: an envelope is answered at once'
    return None
