"""The verdict: what receivers kept, against what customers were shown.

Each check is a promise with the reason why it is looked at. A check yields once per look, with a text for a breach; one
that found nothing to look at has proven nothing and counts as failed.
"""

import base64
import collections
import dataclasses
import functools
import hmac
import json

import scene
from evidence import SETTLED, fold, in_0_3, state_of

# What Standard Webhooks allows between the clocks of a sender and a receiver.
TOLERANCE_SECONDS = 300
CONTENT_TYPES = {'1.0': 'application/a2a+json', '0.3': 'application/json'}

LASTS = 'the server ended only when it was killed, and came back every time'
SERVED = 'every customer was answered, and none with a surprise'
EMPTY = '`sabir push list` shows nothing that was given up, and nothing that waits'


@dataclasses.dataclass
class Verdict:
    promise: str
    looked: int
    wrong: list

    @property
    def kept(self):
        return not self.wrong and self.looked > 0


class Case:
    """The evidence, sorted: to each webhook its task's events and the requests that came."""

    def __init__(self, told, requests, secret):
        self.told, self.requests, self.secret = told, requests, secret
        self.hooks = {(hook.receiver, hook.path): (hook, one) for one in told for hook in one.hooks}
        self.arrived = collections.defaultdict(list)
        for request in requests:
            self.arrived[request.receiver, request.path].append(request)

    @functools.cached_property
    def lines(self):
        """For each webhook: the registration, its task, and its requests with the number of the event in each."""
        made = []
        for where, (hook, told) in self.hooks.items():
            requests, looks = self.arrived[where], bodies(told, hook.dialect)
            numbers = [number_of(request, looks, hook.dialect) if request.whole else None for request in requests]
            # Of a request that was cut off only the id is known; what it was about, another one with that id says.
            known = {request.id: number for request, number in zip(requests, numbers) if number is not None}
            made.append((hook, told, [(r, known.get(r.id) if n is None and not r.whole else n)
                                      for r, n in zip(requests, numbers)]))
        return made


def bodies(told, dialect):
    """What each event looks like to a webhook of a dialect: 1.0 tells the event, 0.3 the task as it then stood."""
    numbers = sorted(told.events)
    events = [told.events[number] for number in numbers]
    return list(zip(numbers, events if dialect == '1.0' else in_0_3(fold(events))))


def number_of(request, looks, dialect):
    """Which event of the task a body tells, or `None`."""
    try:
        body = json.loads(request.body)
    except ValueError:
        return None
    if dialect == '0.3' and isinstance(body, dict):
        # Streams do not repeat the history, so it is looked at apart.
        body.pop('history', None)
    return next((number for number, wanted in looks if body == wanted), None)


def owed(hook, told):
    """The numbers of the events that certainly were to be delivered."""
    # Whoever registers while the task settles, or afterwards, hears at least how it ended.
    after = told.last - 1 if hook.after_max is None else hook.after_max
    return range(after + 1, told.last + 1)


def missing(case):
    """What has not been accepted yet; also what the run waits for."""
    for hook, told, line in case.lines:
        accepted = {number for request, number in line if request.accepted}
        yield from ((hook, number) for number in owed(hook, told) if number not in accepted)


# --- Checks: a yield is a look, a text is a breach --------------------------------------------------------------------


def delivered(case):
    """every event of every acknowledged task was accepted by each of its webhooks

    The first promise: an outbox that a crash cannot empty.
    """
    lost = {(hook.name, number) for hook, number in missing(case)}
    for hook, told, line in case.lines:
        for number in owed(hook, told):
            yield f'{hook.name}: event {number} of task {told.task} was never accepted' if (
                hook.name, number) in lost else None


def ordered(case):
    """first arrivals are in order, without a gap

    A receiver that has seen event 4 must be able to rely on having seen event 3.
    """
    for hook, told, line in case.lines:
        last = None
        for request, number in line:
            if number is None or last is not None and number <= last:
                continue
            if last is not None:
                yield None if number == last + 1 else f'{hook.name}: event {number} came first after event {last}'
            last = number


def patient(case):
    """no event is first seen before the one before it was accepted

    Until then it may have to be sent again, and would come after the later one.
    """
    for hook, told, line in case.lines:
        seen, accepted = set(), set()
        for request, number in line:
            if number is not None and number not in seen:
                if seen:
                    before = max(seen)
                    yield None if before in accepted else (
                        f'{hook.name}: event {number} came while event {before} had been accepted by nobody')
                seen.add(number)
            if request.accepted:
                accepted.add(number)


def begins(case):
    """a webhook is told what happens after it was registered, and nothing from before

    A webhook that comes with the message is told everything, from the task's first event. So is one that comes when the
    task has settled: nothing else would ever happen, and whoever registered a moment too late would wait for ever.
    """
    for hook, told, line in case.lines:
        numbers = [number for _, number in line if number is not None]
        if not numbers:
            yield None if not owed(hook, told) else f'{hook.name}: was told nothing'
            continue
        latest = told.last if hook.after_max is None else hook.after_max + 1
        afterwards = hook.after_max is None and numbers[0] == 1
        right = afterwards or hook.after_min < min(numbers) and numbers[0] <= latest
        yield None if right else (f'{hook.name}: registered after event {hook.after_min} and before event {latest} '
                                  f'({hook.how}), told first of {numbers[0]}, and of {min(numbers)}')


def one_id(case):
    """an event has one webhook-id, however often it comes

    It is how a receiver knows that it has seen an event. An event with two ids is done twice.
    """
    for hook, told, line in case.lines:
        ids = collections.defaultdict(set)
        for request, number in line:
            if number is not None:
                ids[number].add(request.id)
        for number, found in ids.items():
            right = len(found) == 1 and None not in found
            yield None if right else f'{hook.name}: event {number} came with the ids {sorted(map(str, found))}'


def one_event(case):
    """a webhook-id stands for one event of one webhook, and its body is the same each time, to the byte

    An id that is used again hides an event. A request that was cut off must have been the beginning of that body.
    """
    whole = collections.defaultdict(set)
    for request in case.requests:
        if request.whole:
            whole[request.id].add((request.receiver, request.path, request.body))
    for id, found in whole.items():
        yield None if len(found) == 1 else (
            f'id {id}: stands for {len(found)} different things, at {sorted({path for _, path, _ in found})}')
    for request in case.requests:
        if not request.whole:
            begun = any((receiver, path) == (request.receiver, request.path) and body.startswith(request.body)
                        for receiver, path, body in whole[request.id])
            yield None if begun else f'id {request.id} at {request.path}: was cut off, and its event never came whole'


def true(case):
    """every body is an event that the customer was shown, in the dialect of the registration

    1.0 is told the event as streams show it, 0.3 the task as it stood after it, history included.
    """
    for hook, told, line in case.lines:
        for request, number in line:
            if not request.whole:
                continue
            if number is None:
                yield f'{hook.name}: got what is no event of task {told.task}: {request.body[:300]!r}'
            else:
                yield heard_wrongly(hook, told, request) if hook.dialect == '0.3' else None


def heard_wrongly(hook, told, request):
    """The history of a task in 0.3 begins with what its customer said, in that order."""
    said = [one['messageId'] for one in json.loads(request.body).get('history', []) if one.get('role') == 'user']
    return None if said and said == told.messages[:len(said)] else (
        f'{hook.name}: the history says {said}, the customer said {told.messages}')


def signed(case):
    """every signature verifies, over the bytes that came and at the time they came

    Of what was cut off there is nothing to verify.
    """
    key = base64.b64decode(case.secret.removeprefix('whsec_'))
    for request in case.requests:
        if not request.whole:
            continue
        stamp = request.headers.get('webhook-timestamp', '')
        content = f'{request.id}.{stamp}.'.encode() + request.body
        wanted = 'v1,' + base64.b64encode(hmac.digest(key, content, 'sha256')).decode()
        right = hmac.compare_digest(request.headers.get('webhook-signature', ''), wanted)
        on_time = stamp.isdigit() and abs(int(stamp) - request.at) <= TOLERANCE_SECONDS
        yield None if right and on_time else (
            f'{request.path} {request.id}: signature {request.headers.get("webhook-signature")!r} at {stamp!r}')


def addressed(case):
    """every request was for a webhook that is registered, with its token, its credentials and its media type

    Anything else is somebody else's event, or somebody else's secret.
    """
    for request in case.requests:
        hook, _ = case.hooks.get((request.receiver, request.path), (None, None))
        if hook is None or request.method != 'POST':
            yield f'{request.method} {request.path}: nobody registered that at {request.receiver}'
            continue
        wanted = {'x-a2a-notification-token': hook.token, 'content-type': CONTENT_TYPES[hook.dialect], **hook.headers}
        got = {name: request.headers.get(name) for name in wanted}
        right = got == wanted and not request.headers['repeated']
        yield None if right else f'{hook.name}: got {got} {request.headers["repeated"]}, want {wanted}'


def unchanged(case):
    """what customers were shown as it happened is what they are shown at the end, up to the settled state

    The list of events that webhooks are held to is this one, so it must be whole.
    """
    for told in case.told:
        numbers = sorted(told.events)
        states = [state_of(event) for event in told.events.values()]
        if numbers != list(range(1, len(numbers) + 1)) or states[-1] not in SETTLED:
            yield f'task {told.task}: at the end the events {numbers} were shown, the last of them {states[-1]}'
            continue
        wrong = [number for number, event in told.live.items() if told.events.get(number) != event]
        yield f'task {told.task}: the events {wrong} were shown otherwise as they happened' if wrong else None


def put_to_the_test(case):
    """receivers failed in every way, on deliveries of both dialects, and some events came twice

    Without that all the rest would be easy.
    """
    answers = collections.Counter(request.answer for request in case.requests)
    for answer in [*scene.ACCEPTS, *scene.REFUSES]:
        yield None if answers[answer] else f'no receiver answered with {scene.ANSWERS.get(answer, answer)}'
    for dialect in CONTENT_TYPES:
        failed = any(not request.accepted for hook, _, line in case.lines for request, _ in line
                     if hook.dialect == dialect)
        yield None if failed else f'no delivery in {dialect} failed'
    twice = len(case.requests) > len({request.id for request in case.requests})
    yield None if twice else 'no event came twice'


CHECKS = [delivered, ordered, patient, begins, one_id, one_event, true, signed, addressed, unchanged, put_to_the_test]


def promise(check):
    return check.__doc__.split('\n')[0]


def judge(case):
    """All verdicts on the evidence."""
    verdicts = []
    for check in CHECKS:
        looks = list(check(case))
        verdicts.append(Verdict(promise(check), len(looks), [look for look in looks if look]))
    return verdicts
