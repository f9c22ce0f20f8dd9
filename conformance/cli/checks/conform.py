"""`conformance`: a smoke check of somebody else's agent."""

import json
import re

from harness import contains, equal, holds
from registry import LIVE, requirement
from stub import Fault, task


def verdicts(value):
    """Every check in the document: whatever the member is called, it has an id in the kit's style and an outcome."""
    found = []

    def walk(node):
        if isinstance(node, dict):
            if re.fullmatch(r'[A-Z][A-Z0-9_]*-[A-Z0-9-]*\d+', str(node.get('id', ''))):
                found.append(node)
            for child in node.values():
                walk(child)
        elif isinstance(node, list):
            for child in node:
                walk(child)

    walk(value)
    return found


def outcome(check):
    return next(str(check[key]).lower() for key in ('result', 'status', 'outcome', 'verdict') if key in check)


@requirement('A2ACLI_CONFORM_001', agents=LIVE)
def a_good_agent_passes(case):
    run = case.run('conformance', '-a', case.ref, '-o', 'json', seconds=120).exits(0)
    found = verdicts(run.json)
    holds(len(found) >= 6, f'checks: {found}')
    failed = [
        check for check in found if outcome(check).startswith('fail') and str(check.get('level', '')).lower() == 'must'
    ]
    equal(failed, [], 'failures')
    text = case.run('conformance', '-a', case.ref, '--strict', seconds=120).exits(0).out
    contains(text, found[0]['id'], 'the text names the checks')


@requirement('A2ACLI_CONFORM_001')
def a_broken_agent_fails_without_failing_the_tool(case):
    def never(call):
        raise Fault('InternalError')

    server = case.stub(
        on={
            'SendMessage': never,
            'SendStreamingMessage': never,
            # A task that does not exist is found, which no agent may do.
            'GetTask': lambda call: task(call.params['id'], 'TASK_STATE_WORKING'),
        }
    )
    run = case.run('conformance', '-a', server.url, '-o', 'json', seconds=120).exits(0)
    outcomes = [outcome(check) for check in verdicts(run.json)]
    holds(any(word.startswith('fail') for word in outcomes), f'outcomes: {outcomes}')
    case.run('conformance', '-a', server.url, '--strict', seconds=120).exits(1)
    holds(json.dumps(run.json), 'a document')


@requirement('A2ACLI_CONFORM_001')
def what_was_skipped_is_not_passed(case):
    server = case.stub(streaming=False, push=False)
    run = case.run('conformance', '-a', server.url, '-o', 'json', seconds=120).exits(0)
    outcomes = {check['id']: outcome(check) for check in verdicts(run.json)}
    holds(any(word.startswith('skip') for word in outcomes.values()), f'nothing was skipped: {outcomes}')
    equal(server.of('SendStreamingMessage', 'SubscribeToTask'), [], 'streaming requests')
