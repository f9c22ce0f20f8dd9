"""Looks for the fault of each rogue, with the standard library alone: it must be there, and not in the twin.

Each probe is given a `Call` and says whether the fault shows. This is no doctor: it knows what it is looking for.
"""

import http.client
import json
import socket
import ssl
import time
import urllib.parse
import uuid


class Call:
    """Requests to one server."""

    def __init__(self, server, hook):
        self.url, self.server, self.hook = urllib.parse.urlsplit(server.url), server, hook
        given = dict(zip(server.arguments[::2], server.arguments[1::2], strict=True))
        self.ca, self.token = given.get('--ca-cert'), given.get('--bearer')

    def open(self, timeout=3):
        if self.url.scheme == 'http':
            return http.client.HTTPConnection(self.url.hostname, self.url.port, timeout=timeout)
        context = ssl.create_default_context(cafile=self.ca)
        return http.client.HTTPSConnection(self.url.hostname, self.url.port, timeout=timeout, context=context)

    def get(self, path, method='GET', body=None, timeout=8, **headers):
        """Status, headers and body."""
        connection = self.open(timeout)
        try:
            connection.request(method, path, body, {name.replace('_', '-'): one for name, one in headers.items()})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def card(self):
        return self.get('/.well-known/agent-card.json')

    def rpc(self, method, params, version='1.0', call_id=7):
        """Status, headers, and the answer as JSON."""
        body = json.dumps({'jsonrpc': '2.0', 'id': call_id, 'method': method, 'params': params})
        about = {'Content_Type': 'application/json', 'A2A_Version': version}
        if self.token:
            about['Authorization'] = f'Bearer {self.token}'
        status, headers, text = self.get('/rpc', 'POST', body, **about)
        return status, headers, json.loads(text)

    def send(self, **configuration):
        return self.rpc('SendMessage', {'message': message(), 'configuration': configuration})[2]['result']['task']

    def state(self, task):
        return self.rpc('GetTask', {'id': task})[2]['result']['status']['state']

    def streamed(self):
        """Status, headers and body of a stream, whatever it is."""
        params = {'message': message()}
        body = json.dumps({'jsonrpc': '2.0', 'id': 7, 'method': 'SendStreamingMessage', 'params': params})
        return self.get('/rpc', 'POST', body, A2A_Version='1.0')

    def stream(self, timeout=1.0):
        """Events of a stream, and how it ended: `end`, `cut`, or `open` when it was silent or never did."""
        params = {'message': message()}
        body = json.dumps({'jsonrpc': '2.0', 'id': 7, 'method': 'SendStreamingMessage', 'params': params})
        connection = self.open(timeout)
        connection.request('POST', '/rpc', body, {'Content-Type': 'application/json', 'A2A-Version': '1.0'})
        answer, events, how, last = connection.getresponse(), [], 'end', time.monotonic()
        try:
            while line := answer.readline():
                if line.startswith(b'data:'):
                    events.append(json.loads(line[5:])['result'])
                    last = time.monotonic()
                elif time.monotonic() - last > 5:
                    raise TimeoutError
        except TimeoutError:
            how = 'open'
        except (http.client.HTTPException, ValueError):
            how = 'cut'
        connection.close()
        return events, how


def message():
    return {'messageId': str(uuid.uuid4()), 'role': 'ROLE_USER', 'parts': [{'text': 'hello'}]}


def fails(error, act):
    try:
        act()
    except error as why:
        return why
    return None


def tls(code):
    def probe(call):
        why = fails(ssl.SSLCertVerificationError, call.card)
        return why is not None and why.verify_code in code

    return probe


def card(test):
    return lambda call: test(json.loads(call.card()[2]))


def rest(method, path, test):
    def probe(call):
        status, _, text = call.get(f'/rest{path}', method, json.dumps({'message': message()}), A2A_Version='1.0')
        return test(status, json.loads(text))

    return probe


def forgets(call):
    return 'error' in call.rpc('GetTask', {'id': call.send()['id']})[2]


def cancel_ignored(call):
    task = call.send(returnImmediately=True)['id']
    said = call.rpc('CancelTask', {'id': task})[2]['result']['status']['state']
    time.sleep(0.5)
    return said == 'TASK_STATE_CANCELED' and call.state(task) != said


def pushed(call):
    """What the hook got for a task of its own."""
    token = str(uuid.uuid4())
    call.rpc('SendMessage', {
        'message': message(), 'configuration': {'taskPushNotificationConfig': {'url': call.hook.url, 'token': token}},
    })
    time.sleep(0.5)
    found = call.hook.seen()[:]
    call.hook.deliveries.clear()
    return token, found


def push_silent(call):
    return not pushed(call)[1]


def push_token(call):
    token, found = pushed(call)
    return bool(found) and all(one['token'] != token for one in found)


def last_state(call):
    events, how = call.stream()
    final = [event['statusUpdate']['status']['state'] for event in events if 'statusUpdate' in event]
    return how == 'end' and final[-1] != 'TASK_STATE_COMPLETED'


def unknown_task(call):
    return call.rpc('GetTask', {'id': 'nothing'})[2]['error']['code'] != -32001


def signature(call):
    """Checks the signature with openssl, over the card as RFC 8785 writes it."""
    import base64
    import pathlib
    import subprocess
    import tempfile

    def decoded(text):
        return base64.urlsafe_b64decode(text + '=' * (-len(text) % 4))

    shown = json.loads(call.card()[2])
    [mark] = shown.pop('signatures')
    payload = json.dumps(shown, sort_keys=True, separators=(',', ':')).encode()
    text = mark['protected'] + '.' + base64.urlsafe_b64encode(payload).decode().rstrip('=')
    [key] = json.loads(call.get('/jwks.json')[2])['keys']
    prefix = bytes.fromhex('3059301306072a8648ce3d020106082a8648ce3d030107034200')
    raw = decoded(mark['signature'])
    numbers = [half.lstrip(b'\0') or b'\0' for half in (raw[:32], raw[32:])]
    numbers = [b'\0' + one if one[0] > 127 else one for one in numbers]
    body = b''.join(bytes([2, len(one)]) + one for one in numbers)
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        (scratch / 'key').write_bytes(prefix + b'\4' + decoded(key['x']) + decoded(key['y']))
        (scratch / 'mark').write_bytes(bytes([0x30, len(body)]) + body)
        arguments = ['dgst', '-sha256', '-verify', scratch / 'key', '-keyform', 'DER', '-signature', scratch / 'mark']
        done = subprocess.run(['openssl', *arguments], input=text.encode(), capture_output=True)
    return done.returncode != 0


PROBES = {
    'dns': lambda call: bool(fails(socket.gaierror, call.card)),
    'tcp': lambda call: bool(fails(ConnectionRefusedError, call.card)),
    'tls.handshake': lambda call: 'WRONG_VERSION_NUMBER' in str(fails(ssl.SSLError, call.card)),
    'tls.trust': tls((18, 20)),
    'tls.name': tls((62,)),
    'tls.expired': tls((10,)),
    'http.answer': lambda call: bool(fails(TimeoutError, lambda: call.get('/', timeout=1.5))),
    'card.missing': lambda call: call.card()[0] == 404 == call.get('/.well-known/agent.json')[0],
    'card.path': lambda call: (call.card()[0], call.get('/.well-known/agent.json')[0]) == (404, 200),
    'card.redirect': lambda call: call.card()[0] == 302,
    'card.type': lambda call: call.card()[1]['Content-Type'].startswith('text/html'),
    'card.json': lambda call: bool(fails(ValueError, lambda: json.loads(call.card()[2]))),
    'card.size': lambda call: len(call.card()[2]) > 10_000_000,
    'card.required': card(lambda card: 'skills' not in card),
    'card.lint': card(lambda card: 'documentationUrl' not in card),
    'card.schemes': card(lambda card: 'ghost' in card['securityRequirements'][1]['schemes']),
    'card.url': card(lambda card: '0.0.0.0' in card['supportedInterfaces'][0]['url']),
    'card.interfaces': card(lambda card: 'smoke' in card['supportedInterfaces'][0]['protocolBinding']),
    'card.signature': signature,
    'card.cache': lambda call: 'ETag' not in call.card()[1],
    'auth.undeclared': lambda call: call.rpc('GetTask', {'id': 'x'})[0] == 401,
    'auth.challenge': lambda call: 'WWW-Authenticate' not in call.rpc('GetTask', {'id': 'x'})[1],
    'auth.ignored': lambda call: call.rpc('GetTask', {'id': 'x'})[0] == 200,
    'auth.refused': lambda call: call.rpc('GetTask', {'id': 'x'})[0] == 401,
    'interface.reach': card(lambda card: ':9/' in card['supportedInterfaces'][1]['url']),
    'rpc.version': lambda call: call.rpc('GetTask', {'id': 'x'})[2]['error']['code'] == -32601,
    'rpc.json': lambda call: bool(fails(ValueError, lambda: call.rpc('GetTask', {'id': 'x'}))),
    'rpc.id': lambda call: call.rpc('GetTask', {'id': 'x'})[2]['id'] != 7,
    'rpc.content': lambda call: call.rpc('GetTask', {'id': 'x'})[1]['Content-Type'] != 'application/json',
    'rpc.shape': lambda call: 'task' not in call.rpc('SendMessage', {'message': message()})[2]['result'],
    'rpc.state': lambda call: call.send()['status']['state'] == 'completed',
    'rpc.error': unknown_task,
    'rpc.unversioned': lambda call: 'result' in call.rpc('SendMessage', {'message': message()}, version='9.9')[2],
    'send.refused': lambda call: 'error' in call.rpc('SendMessage', {'message': message()})[2],
    'send.wait': lambda call: call.send()['status']['state'] != 'TASK_STATE_COMPLETED',
    'get.lost': forgets,
    'list.missing': lambda call: 'error' in call.rpc('ListTasks', {})[2],
    'stream.declared': lambda call: b'-32004' in call.streamed()[2],
    'stream.content': lambda call: 'event-stream' not in call.streamed()[1]['Content-Type'],
    'stream.first': lambda call: 'task' not in call.stream()[0][0],
    'stream.silence': lambda call: call.stream()[1] == 'open',
    'stream.cut': lambda call: call.stream()[1] == 'cut',
    'stream.end': last_state,
    'stream.endless': lambda call: call.stream()[1] == 'open',
    'subscribe.missing': lambda call: call.rpc('SubscribeToTask', {'id': 'x'})[2]['error']['code'] == -32601,
    'cancel.missing': lambda call: call.rpc('CancelTask', {'id': 'x'})[2]['error']['code'] == -32601,
    'cancel.ignored': cancel_ignored,
    'push.declared': lambda call: 'error' in call.rpc('SendMessage', {
        'message': message(), 'configuration': {'taskPushNotificationConfig': {'url': call.hook.url}}})[2],
    'push.silent': push_silent,
    'push.token': push_token,
    'rest.path': rest('POST', '/message:send', lambda status, answer: status == 404),
    'rest.error': rest('GET', '/tasks/nothing', lambda status, answer: 'error' not in answer),
}
