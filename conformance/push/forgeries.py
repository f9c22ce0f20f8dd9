"""Who judges the judge: every kind of broken delivery, forged on purpose, must be found out by the check meant for it.

The forged records begin as those of an honest server: two tasks, one of them with a webhook in each dialect, receivers
that failed now and then, and a webhook that was registered late. Each forgery changes one thing.
"""

import base64
import copy
import dataclasses
import hmac
import json

import judge
import scene
from evidence import Hook, Request, Told, fold, in_0_3
from judge import (
    addressed, begins, delivered, one_event, one_id, ordered, patient, put_to_the_test, signed, true, unchanged,
)

SECRET = 'whsec_' + base64.b64encode(bytes(range(32))).decode()
NOW = 1_780_308_000.0


def events_of(task):
    """Six events as a stream of 1.0 shows them."""
    def status(state, text):
        message = {'messageId': f'{task}-{text}', 'role': 'ROLE_AGENT', 'parts': [{'text': text}]}
        return {'statusUpdate': {'taskId': task, 'contextId': 'c', 'status': {
            'state': f'TASK_STATE_{state}', 'message': message}}}

    def chunk(text, **more):
        artifact = {'artifactId': 'a1', 'parts': [{'text': text}]}
        return {'artifactUpdate': {'taskId': task, 'contextId': 'c', 'artifact': artifact, **more}}

    said = {'messageId': f'm-{task}', 'role': 'ROLE_USER', 'parts': [{'text': 'go'}]}
    opening = {'task': {'id': task, 'contextId': 'c', 'status': {'state': 'TASK_STATE_SUBMITTED'}, 'history': [said]}}
    events = [opening, status('WORKING', 'at work'), chunk('one '), chunk('two ', append=True),
              chunk('three', append=True), status('COMPLETED', 'done')]
    return dict(enumerate(events, 1))


def seal(request):
    """Signs what is in a request, as an honest sender would."""
    stamp = str(int(request.at))
    key = base64.b64decode(SECRET.removeprefix('whsec_'))
    mac = hmac.digest(key, f'{request.id}.{stamp}.'.encode() + request.body, 'sha256')
    request.headers |= {'webhook-timestamp': stamp, 'webhook-signature': 'v1,' + base64.b64encode(mac).decode()}
    return request


class Forged:
    """Records of an honest run, to be spoiled."""

    def __init__(self):
        first, second = events_of('t1'), events_of('t2')
        self.told = [
            Told('t1', ['m-t1'], {2: first[2], 3: first[3]}, first,
                 [self.hook('new', '1.0', 'inline', 0), self.hook('old', '0.3', 'inline', 0)]),
            Told('t2', ['m-t2'], {}, second, [self.hook('late', '1.0', 'late', 2, 3)]),
        ]
        self.requests, self.tick = [], 0
        refusals = iter([*scene.REFUSES, '500'])
        accepts = iter([*scene.ACCEPTS] * 10)
        for told in self.told:
            for hook in told.hooks:
                for number in range(hook.after_min + 1, 7):
                    if number % 3 == 0:
                        self.arrive(hook, told, number, next(refusals))
                    self.arrive(hook, told, number, next(accepts))

    @staticmethod
    def hook(name, dialect, how, after_min, after_max=0):
        headers = {'authorization': 'Bearer x', 'x-api-key': None}
        return Hook(name, 'receiver-1', dialect, how, f'token-{name}', headers, after_min, after_max)

    def arrive(self, hook, told, number, answer):
        self.tick += 1
        events = [told.events[n] for n in sorted(told.events)][:number]
        body = events[-1]
        if hook.dialect == '0.3':
            body = in_0_3(fold(events)[-1]) | {'history': in_0_3(events[0]['task']['history'])}
        data = json.dumps(body).encode()
        headers = {'webhook-id': f'{told.task}-{number}-{hook.name}', 'x-a2a-notification-token': hook.token,
                   'content-type': judge.CONTENT_TYPES[hook.dialect], 'repeated': [], **hook.headers}
        headers = {name: value for name, value in headers.items() if value is not None}
        request = seal(Request('receiver-1', NOW + self.tick, 'POST', hook.path, headers, data, answer))
        if answer == 'cut':
            request.body = data[:len(data) // 2]
        self.requests.append(request)

    # --- Finding things to change -------------------------------------------------------------------------------------

    def at(self, hook, number, accepted=True):
        """Where the request with this event of a webhook is."""
        return next(i for i, r in enumerate(self.requests) if r.path == f'/{hook}'
                    and r.id.split('-')[1] == str(number) and r.accepted == accepted)

    def swap(self, hook, one, other):
        """Two events of a webhook arrive the other way round."""
        i, j = self.at(hook, one), self.at(hook, other)
        self.requests[i], self.requests[j] = self.requests[j], self.requests[i]

    def again(self, hook, number, **changes):
        """An event that was accepted comes once more, with something changed; signed again, to deceive well."""
        request = copy.deepcopy(self.requests[self.at(hook, number)])
        request.at += 100
        for name, value in changes.items():
            if name == 'id':
                request.headers['webhook-id'] = value
            else:
                setattr(request, name, value)
        self.requests.append(seal(request))

    def retell(self, hook, number, old, new):
        """A body says something else, in all its repetitions, and is signed."""
        for request in self.requests:
            if request.path == f'/{hook}' and request.id.split('-')[1] == str(number):
                if old not in request.body:
                    raise ValueError(f'a forgery that changes nothing: {old!r}')
                request.body = request.body.replace(old, new)
                seal(request)

    def drop(self, hook, number):
        """An event never arrives."""
        kept = [r for r in self.requests if not (r.path == f'/{hook}' and r.id.split('-')[1] == str(number))]
        if len(kept) == len(self.requests):
            raise ValueError('a forgery that changes nothing')
        self.requests = kept

    def header(self, hook, number, name, value):
        request = self.requests[self.at(hook, number)]
        if value is None:
            del request.headers[name]
        else:
            request.headers[name] = value

    def register(self, hook, **changes):
        """The customer's own account of a registration was another one."""
        for told in self.told:
            told.hooks = [dataclasses.replace(one, **changes) if one.name == hook else one for one in told.hooks]


def never_accepted(f):
    """The last event was sent, refused, and forgotten."""
    f.requests[f.at('new', 6)].answer = '500'


def overtaken(f):
    """Event 3 was refused at first; event 4 was sent before it was tried again."""
    f.requests.insert(f.at('new', 3), f.requests.pop(f.at('new', 4)))


def from_before(f):
    """A late webhook is told of an event from before it was registered."""
    f.arrive(f.told[1].hooks[0], f.told[1], 2, '200')
    f.requests.insert(f.at('late', 3, accepted=False), f.requests.pop())


def came_at_the_end(lost):
    """A webhook that was registered on a settled task, and misses these events and what was before the third."""
    def change(f):
        f.register('late', after_min=6, after_max=None)
        for number in lost:
            f.drop('late', number)

    return change


def unlike_the_stream(f):
    """What was shown while it happened is not what is shown later."""
    f.told[0].live[3] = f.told[0].events[4]


def the_end_is_missing(f):
    del f.told[0].events[6]


def cut_off_for_good(f):
    """A request that broke off, with an id that never came back."""
    request = next(r for r in f.requests if r.answer == 'cut')
    request.headers['webhook-id'] = 't1-9-nothing'


def another_secret(f):
    request = f.requests[f.at('new', 2)]
    mac = hmac.digest(b'another', f'{request.id}.{int(request.at)}.'.encode() + request.body, 'sha256')
    request.headers['webhook-signature'] = 'v1,' + base64.b64encode(mac).decode()


def changed_after_signing(f):
    request = f.requests[f.at('new', 2)]
    request.body = request.body.replace(b'at work', b'at rest')


def signed_long_ago(f):
    request = f.requests[f.at('new', 2)]
    request.at -= 301
    seal(request)
    request.at += 301


def never_failing(f):
    for request in f.requests:
        request.answer = '200' if request.answer == 'silence' else request.answer


FORGERIES = [
    ('an event in the middle is lost', delivered, lambda f: f.drop('new', 4)),
    ('an event in the middle is lost in 0.3', delivered, lambda f: f.drop('old', 4)),
    ('the last event is lost', delivered, lambda f: f.drop('old', 6)),
    ('the first event is lost', begins, lambda f: f.drop('new', 1)),
    ('a webhook is told nothing at all', delivered, lambda f: [f.drop('late', n) for n in range(3, 7)]),
    ('the last event was never accepted', delivered, never_accepted),
    ('an event is left out for its receivers', ordered, lambda f: f.drop('new', 4)),
    ('two events are swapped', ordered, lambda f: f.swap('new', 4, 5)),
    ('two events are swapped in 0.3', ordered, lambda f: f.swap('old', 4, 5)),
    ('an event overtakes one that was refused', patient, overtaken),
    ('a webhook hears of what was before it', begins, from_before),
    ('a webhook begins too late', begins, lambda f: f.register('late', after_max=1, after_min=1)),
    ('a webhook that came at the end hears nothing', delivered, came_at_the_end(range(3, 7))),
    ('a webhook that came at the end hears not how it ended', delivered, came_at_the_end([6])),
    ('a webhook that came at the end hears half of it', begins, came_at_the_end([])),
    ('an event comes again under another id', one_id, lambda f: f.again('new', 2, id='t1-2-other')),
    ('an event has no id', one_id, lambda f: f.header('new', 2, 'webhook-id', None)),
    ('an id is used for another event', one_event, lambda f: f.again('new', 2, id='t1-5-new')),
    ('an id is used for another webhook', one_event, lambda f: f.again('new', 2, id='t1-2-old')),
    ('a repetition says something else', one_event, lambda f: f.again('old', 2, body=b'{}')),
    ('a repetition is written otherwise', one_event, lambda f: f.again(
        'new', 2, body=json.dumps(f.told[0].events[2], indent=1).encode())),
    ('an event breaks off and never comes whole', one_event, cut_off_for_good),
    ('an event is told wrongly', true, lambda f: f.retell('new', 2, b'at work', b'at rest')),
    ('a task is told wrongly in 0.3', true, lambda f: f.retell('old', 6, b'two ', b'too ')),
    ('a history is told wrongly in 0.3', true, lambda f: f.retell('old', 2, b'm-t1', b'm-t2')),
    ('an event is told in the other dialect', true, lambda f: f.register('new', dialect='0.3')),
    ('somebody else\'s secret signed', signed, another_secret),
    ('a body was changed after it was signed', signed, changed_after_signing),
    ('a signature is missing', signed, lambda f: f.header('new', 2, 'webhook-signature', None)),
    ('a signature is old', signed, signed_long_ago),
    ('a token is another one', addressed, lambda f: f.header('new', 2, 'x-a2a-notification-token', 'token-old')),
    ('a token is missing', addressed, lambda f: f.header('old', 2, 'x-a2a-notification-token', None)),
    ('credentials are missing', addressed, lambda f: f.header('new', 2, 'authorization', None)),
    ('credentials nobody gave are sent', addressed, lambda f: f.header('new', 2, 'x-api-key', 'x')),
    ('a header is there twice', addressed, lambda f: f.header('new', 2, 'repeated', ['webhook-id'])),
    ('a media type is wrong', addressed, lambda f: f.header('old', 2, 'content-type', 'application/a2a+json')),
    ('a request is for nobody', addressed, lambda f: f.again('new', 2, path='/nobody')),
    ('a request arrives at another receiver', addressed, lambda f: f.again('new', 2, receiver='receiver-2')),
    ('a stream showed something else', unchanged, unlike_the_stream),
    ('the list of events has no end', unchanged, the_end_is_missing),
    ('a way of failing was never tried', put_to_the_test, never_failing),
]


def broken(change=lambda f: None):
    forged = Forged()
    change(forged)
    verdicts = judge.judge(judge.Case(forged.told, forged.requests, SECRET))
    return {verdict.promise for verdict in verdicts if not verdict.kept}


def run():
    passed = failed = 0
    cases = [('honest records', None, broken())]
    cases += [(name, judge.promise(check), broken(change)) for name, check, change in FORGERIES]
    for name, promise, found in cases:
        right = promise in found if promise else not found
        passed, failed = passed + right, failed + (not right)
        told = f' — caught by: {promise}' if promise else ''
        print(f'{"ok" if right else "FAIL":5}{name}{told}' + ('' if right else f'; but found was {sorted(found)}'))
    print(f'{passed} passed, {failed} failed', flush=True)
    return 1 if failed else 0
