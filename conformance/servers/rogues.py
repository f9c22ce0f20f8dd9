"""The rogues' gallery: servers that are wrong on purpose, one fault each, as `ROGUES.md` lists them.

    rogues.py ID --port PORT [--twin] [--spare PORT] [--certificates DIRECTORY]      # as a program: serves one

A rogue is what it changes in the healthy agent, and the setting it needs for that to be seen. Its twin is the healthy
agent in the same setting.
"""

import argparse
import asyncio
import base64
import dataclasses
import json
import pathlib
import subprocess
import sys

sys.dont_write_bytecode = True

import ca
from healthy import HTTP, SETTLED, Agent, Answer, Refused, Setting, Stream, as_json

# A port is closed for good only while nobody else is given it; this one belongs to a service nobody runs.
CLOSED = 9


@dataclasses.dataclass(frozen=True)
class Rogue:
    """One fault. `agent` and `http` are what is different; of `serves`, False means that nothing is started."""

    level: str
    agent: type = Agent
    http: type = HTTP
    setting: Setting = Setting()
    serves: bool = True
    host: str = '127.0.0.1'
    certificate: str = 'server'
    # The address where the rogue's is not the twin's.
    url: str = ''
    # What other lines may complain of.
    may_also: tuple = ()

    @property
    def secure(self):
        return self.setting.tls


class Signature:
    """A key of the test authority, and signatures of cards with it."""

    def __init__(self, directory, origin):
        self.directory, self.origin = pathlib.Path(directory), origin
        ca.new_key(self.directory, 'test-card')

    def openssl(self, *arguments, data=None):
        done = subprocess.run(['openssl', *arguments], cwd=self.directory, input=data, check=True, capture_output=True)
        return done.stdout

    def keys(self):
        # The last 65 bytes of the public key are the point: 4, x, y.
        point = self.openssl('pkey', '-in', 'test-card.key', '-pubout', '-outform', 'DER')[-65:]
        x, y = encoded(point[1:33]), encoded(point[33:])
        about = {'kty': 'EC', 'crv': 'P-256', 'kid': 'test-card', 'alg': 'ES256', 'use': 'sig'}
        return {'keys': [{**about, 'x': x, 'y': y}]}

    def over(self, card):
        header = {'alg': 'ES256', 'kid': 'test-card', 'typ': 'JOSE', 'jku': f'{self.origin}/jwks.json'}
        protected = encoded(json.dumps(header).encode())
        # For a card of this gallery, in ASCII and without numbers or empty values, this is what RFC 8785 wants.
        payload = json.dumps(card, sort_keys=True, separators=(',', ':')).encode()
        text = f'{protected}.{encoded(payload)}'.encode()
        signature = self.openssl('dgst', '-sha256', '-sign', 'test-card.key', data=text)
        return {'protected': protected, 'signature': encoded(raw_signature(signature))}


def encoded(data):
    return base64.urlsafe_b64encode(data).decode().rstrip('=')


def raw_signature(der):
    """The two numbers of an ECDSA signature, as JWS has them: 32 bytes each."""
    numbers, at = [], 2
    for _ in range(2):
        length = der[at + 1]
        numbers.append(int.from_bytes(der[at + 2:at + 2 + length], 'big'))
        at += 2 + length
    return b''.join(number.to_bytes(32, 'big') for number in numbers)


# --- Faults of the way there ------------------------------------------------------------------------------------------


class NeverAnswers(HTTP):
    async def route(self, request):
        await asyncio.sleep(3600)


# --- Faults of the card -----------------------------------------------------------------------------------------------


class NoCard(HTTP):
    CARD_PATH = '/nowhere'


class OldPath(HTTP):
    CARD_PATH = '/.well-known/agent.json'


class Redirects(HTTP):
    def card_answer(self, request):
        return Answer(302, {'Location': f'{self.agent.spare}{self.CARD_PATH}'}, b'')


class LoginPage(HTTP):
    def card_answer(self, request):
        page = b'<!DOCTYPE html><html><head><title>Log in</title></head><body><form>Password</form></body></html>'
        return Answer(200, {'Content-Type': 'text/html; charset=utf-8'}, page)


class CutCard(HTTP):
    def card_answer(self, request):
        body = json.dumps(self.agent.card()).encode()
        return Answer(200, self.card_headers(body), body[:len(body) // 2])


class HugeCard(Agent):
    def card(self):
        return {**super().card(), 'description': 'far too much of it. ' * 500_000}


class PartialCard(Agent):
    def card(self):
        missing = ('skills', 'version', 'defaultInputModes')
        return {name: value for name, value in super().card().items() if name not in missing}


class SnakeCase(Agent):
    def card(self):
        card = super().card()
        where = card.pop('documentationUrl')
        return {**card, 'documentation_url': where}


class GhostScheme(Agent):
    def requirements(self):
        return [{'schemes': {}}, {'schemes': {'ghost': {'list': []}}}]


class NowhereURL(Agent):
    def interfaces(self):
        port = self.origin.rpartition(':')[2]
        return [{**one, 'url': f'http://0.0.0.0:{port}/rpc'} for one in super().interfaces()]


class SmokeSignals(Agent):
    def interfaces(self):
        binding = 'https://example.org/binding/smoke/v1'
        return [{**one, 'protocolBinding': binding} for one in super().interfaces()]


class OtherSignature(Agent):
    def signed_card(self, card):
        return {**card, 'description': 'The card of somebody else'}


class Uncacheable(HTTP):
    def card_headers(self, body):
        return {'Content-Type': 'application/json'}


class DeadInterface(Agent):
    def interfaces(self):
        first, second = super().interfaces()
        return [first, {**second, 'url': f'http://127.0.0.1:{CLOSED}/rest'}]


# --- Faults of authentication -----------------------------------------------------------------------------------------


class SecretlyClosed(HTTP):
    def admit(self, request):
        return as_json({'error': 'a token is needed'}, 401, **self.challenge())


class NoChallenge(HTTP):
    def challenge(self):
        return {}


class TakesNoToken(HTTP):
    def accepts(self, token):
        return False


class OpenDoor(HTTP):
    def admit(self, request):
        return None


# --- Faults of JSON-RPC -----------------------------------------------------------------------------------------------


def older(value, key='kind'):
    """A task or message of 1.0 as 0.3 writes it."""
    task = {**value, 'kind': 'task', 'status': {**value['status'], 'state': old_state(value['status']['state'])}}
    task['history'] = [{
        'kind': 'message', 'messageId': message['messageId'], 'role': 'user', 'contextId': value['contextId'],
        'parts': [{'kind': 'text', 'text': part.get('text', '')} for part in message['parts']],
    } for message in value.get('history', [])]
    task['artifacts'] = [
        {**one, 'parts': [{'kind': 'text', **part} for part in one['parts']]} for one in value.get('artifacts', [])
    ]
    return task


def old_state(state):
    return state.removeprefix('TASK_STATE_').lower().replace('_', '-')


class SpeaksOld(Agent):
    """0.3 in what it does, 1.0 in what it says of itself."""

    async def answer(self, operation, params, version):
        match operation:
            case 'message/send':
                given = {'message': params.get('message'), 'configuration': {'returnImmediately': False}}
                return older((await super().answer('SendMessage', given, '1.0'))['task'])
            case 'tasks/get' | 'tasks/cancel':
                name = {'tasks/get': 'GetTask', 'tasks/cancel': 'CancelTask'}[operation]
                return older(await super().answer(name, {'id': params.get('id')}, '1.0'))
        raise Refused(-32601, f'Method not found: {operation}')


class NotJSON(HTTP):
    def rpc_answer(self, value):
        return Answer(200, {'Content-Type': 'application/json'}, b'upstream connect error or disconnect')

    async def rpc(self, request):
        # A stream is not one either.
        await super().rpc(request)
        return self.rpc_answer(None)


class OtherId(HTTP):
    def rpc_id(self, call_id):
        return 'not-yours'


class PlainText(HTTP):
    def rpc_answer(self, value):
        return as_json(value, kind='text/plain')


class BareTask(Agent):
    def send_result(self, task):
        return task


class OldStates(HTTP):
    def rpc_answer(self, value):
        return as_json(lowered(value))

    async def write_stream(self, writer, stream, frame):
        return await super().write_stream(writer, stream, lambda event: lowered(frame(event)))


def lowered(value):
    if isinstance(value, dict):
        return {name: old_state(one) if name == 'state' else lowered(one) for name, one in value.items()}
    return [lowered(one) for one in value] if isinstance(value, list) else value


class StackTrace(Agent):
    def find(self, task_id):
        if task_id not in self.tasks:
            raise Refused(-32603, 'Traceback (most recent call last): KeyError at agent.py line 42')
        return super().find(task_id)


class AnyVersion(Agent):
    def check_version(self, version):
        pass


# --- Faults of operations ---------------------------------------------------------------------------------------------


class Impatient(Agent):
    def waits(self, params):
        return False


class NoText(Agent):
    def begin(self, params, watched=False):
        raise Refused(-32005, 'text/plain is not supported')


class Forgets(Agent):
    async def on_GetTask(self, params):
        raise Refused(-32001, f'no task {params.get("id")}')


class NoList(Agent):
    on_ListTasks = None


class NoSubscribe(Agent):
    on_SubscribeToTask = None


class NoCancel(Agent):
    on_CancelTask = None


class CancelsInWords(Agent):
    def cancel(self, task):
        return {**self.shown(task), 'status': {**task['status'], 'state': 'TASK_STATE_CANCELED'}}


# --- Faults of streams ------------------------------------------------------------------------------------------------


class NoStream(Agent):
    async def on_SendStreamingMessage(self, params):
        raise Refused(-32004, 'streaming is not supported')


class StreamAsJSON(Agent):
    async def on_SendStreamingMessage(self, params):
        return await self.on_SendMessage(params)


class NoFirstTask(Agent):
    def open_stream(self, task):
        pass


class Silent(HTTP):
    def keep_alive(self):
        return b''


class Cut(HTTP):
    async def write_event(self, writer, data, event):
        if 'artifactUpdate' not in event:
            return await super().write_event(writer, data, event)
        self.write_chunk(writer, data[:len(data) // 2])
        await writer.drain()
        return False


class EndsEarly(Agent):
    def show_status(self, task, state):
        super().show_status(task, state)
        if state not in SETTLED:
            for queue in self.watchers[task['id']]:
                queue.put_nowait(None)


class Endless(HTTP):
    async def next_event(self, writer, stream):
        event = await super().next_event(writer, stream)
        return event if event is not None else await super().next_event(writer, Stream(asyncio.Queue()))


# --- Faults of webhooks -----------------------------------------------------------------------------------------------


class RefusesHooks(Agent):
    def add_hook(self, task, config):
        raise Refused(-32003, 'push notifications are not supported')


class NeverCalls(Agent):
    def call_hook(self, config, event):
        pass


class CallsAnonymously(Agent):
    def hook_credentials(self, config):
        return {}


# --- Faults of HTTP+JSON ----------------------------------------------------------------------------------------------


class OldPaths(HTTP):
    def rest_operation(self, request, path):
        if not path.startswith('/v1/'):
            raise Refused(-32601, f'there is no {request.method} {path}')
        return super().rest_operation(request, path.removeprefix('/v1'))

    async def rest(self, request):
        # 0.3 has no header for the version, and other names for the parts of a message.
        if not request.path.startswith('/rest/v1/'):
            return self.rest_refusal(Refused(-32601, f'there is no {request.method} {request.path}'))
        request.headers['a2a-version'] = '1.0'
        request.body = request.body.replace(b'"content"', b'"parts"')
        answer = await super().rest(request)
        if isinstance(answer, Answer):
            answer.body = answer.body.replace(b'"parts": [{"text"', b'"content": [{"text"')
        return answer


class OwnErrors(HTTP):
    def rest_refusal(self, why):
        return as_json({'message': 'nope'}, super().rest_refusal(why).status)


SECURE = Setting(tls=True)
LONG = Setting(work_seconds=4)
REST = Setting(rest=True)
ROGUES = {
    'dns': Rogue('fail', serves=False, host='localhost', url='http://rogue.invalid'),
    'tcp': Rogue('fail', serves=False),
    'tls.handshake': Rogue('fail', setting=SECURE, host='localhost', certificate=''),
    'tls.trust': Rogue('fail', setting=SECURE, host='localhost', certificate='selfsigned'),
    'tls.name': Rogue('fail', setting=SECURE, host='localhost', certificate='elsewhere'),
    'tls.expired': Rogue('fail', setting=SECURE, host='localhost', certificate='expired'),
    'http.answer': Rogue('fail', http=NeverAnswers),
    'card.missing': Rogue('fail', http=NoCard),
    'card.path': Rogue('warn', http=OldPath),
    'card.redirect': Rogue('fail', http=Redirects),
    'card.type': Rogue('fail', http=LoginPage),
    'card.json': Rogue('fail', http=CutCard),
    'card.size': Rogue('fail', HugeCard),
    'card.required': Rogue('fail', PartialCard),
    'card.lint': Rogue('warn', SnakeCase),
    'card.schemes': Rogue('fail', GhostScheme, setting=Setting(optional_bearer=True)),
    'card.url': Rogue('fail', NowhereURL),
    'card.interfaces': Rogue('fail', SmokeSignals),
    'card.signature': Rogue('fail', OtherSignature, setting=Setting(tls=True, signed=True), host='localhost'),
    'card.cache': Rogue('warn', http=Uncacheable),
    'auth.undeclared': Rogue('fail', http=SecretlyClosed),
    'auth.challenge': Rogue('warn', http=NoChallenge, setting=Setting(bearer=True)),
    'auth.ignored': Rogue('warn', http=OpenDoor, setting=Setting(bearer=True)),
    'auth.refused': Rogue('fail', http=TakesNoToken, setting=Setting(bearer=True, token='test-token')),
    'interface.reach': Rogue('fail', DeadInterface, setting=REST),
    'rpc.version': Rogue('fail', SpeaksOld),
    'rpc.json': Rogue('fail', http=NotJSON),
    'rpc.id': Rogue('fail', http=OtherId),
    'rpc.content': Rogue('warn', http=PlainText),
    'rpc.shape': Rogue('fail', BareTask),
    'rpc.state': Rogue('fail', http=OldStates),
    'rpc.error': Rogue('warn', StackTrace),
    'rpc.unversioned': Rogue('warn', AnyVersion),
    'send.refused': Rogue('warn', NoText),
    'send.wait': Rogue('warn', Impatient, setting=Setting(work_seconds=1)),
    'get.lost': Rogue('fail', Forgets),
    'list.missing': Rogue('warn', NoList),
    'stream.declared': Rogue('fail', NoStream),
    'stream.content': Rogue('fail', StreamAsJSON),
    'stream.first': Rogue('warn', NoFirstTask),
    'stream.silence': Rogue('warn', http=Silent, setting=LONG),
    'stream.cut': Rogue('fail', http=Cut),
    'stream.end': Rogue('fail', EndsEarly),
    'stream.endless': Rogue('warn', http=Endless),
    'subscribe.missing': Rogue('warn', NoSubscribe, setting=LONG),
    'cancel.missing': Rogue('warn', NoCancel, setting=LONG),
    'cancel.ignored': Rogue('fail', CancelsInWords, setting=LONG),
    'push.declared': Rogue('fail', RefusesHooks),
    'push.silent': Rogue('fail', NeverCalls),
    'push.token': Rogue('warn', CallsAnonymously),
    'rest.path': Rogue('fail', http=OldPaths, setting=REST),
    'rest.error': Rogue('warn', http=OwnErrors, setting=REST),
}


def origin(rogue, port):
    return f'{"https" if rogue.secure else "http"}://{rogue.host}:{port}'


async def serve(rogue, twin, port, spare, certificates):
    here, there = origin(rogue, port), origin(rogue, spare)
    signature = Signature(certificates, here) if rogue.setting.signed else None
    agent = (Agent if twin else rogue.agent)(rogue.setting, here, there, signature)
    made = ca.Certificates(pathlib.Path(certificates)) if certificates else None
    name = 'server' if twin else rogue.certificate
    door = (HTTP if twin else rogue.http)(agent)
    listening = [door.serve(port, getattr(made, name) if rogue.secure and name else None)]
    if spare:
        # Where the card that redirects leads to: a good card, of the same agent.
        listening.append(HTTP(agent).serve(spare))
    await asyncio.gather(*listening)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('id', choices=ROGUES)
    parser.add_argument('--port', type=int, required=True)
    parser.add_argument('--twin', action='store_true')
    parser.add_argument('--spare', type=int, default=0)
    parser.add_argument('--certificates')
    options = parser.parse_args()
    asyncio.run(serve(ROGUES[options.id], options.twin, options.port, options.spare, options.certificates))


if __name__ == '__main__':
    main()
