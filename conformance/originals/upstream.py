"""An agent elsewhere that answers as a document prints it, for Sabir to call: its card, and answers by method."""

import http.server
import json
import threading
import urllib.parse


class PrintedUpstream:
    """`data` has the `path` of the card, the `card`, and `answers`: a `method`, a `text` in the request, and an `answer`
    or `events`. The first that fits is given, with the id of the request and the task id that the caller names. A text in
    place of a card, an answer or events is the name of a request: what the document prints as the answer to it."""

    def __init__(self, data, requests):
        printed = {request['name']: request['answer'] for request in requests}
        self.path, self.answers = data['path'], [resolve(answer, printed) for answer in data['answers']]
        self.printed_card = resolve({'answer': data['card']}, printed)['answer']
        self.http = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self.http.daemon_threads = True
        self.http.upstream = self
        self.url = f'http://127.0.0.1:{self.http.server_port}'
        threading.Thread(target=self.http.serve_forever, args=(0.05,), daemon=True).start()

    def card(self):
        path = urllib.parse.urlsplit(self.printed_card['url']).path
        return {**self.printed_card, 'url': self.url + path}

    def answer(self, request):
        """The texts of the answer, and whether they are events."""
        for one in self.answers:
            if one['method'] == request['method'] and one.get('text', '') in json.dumps(request):
                printed = one.get('events') or [one['answer']]
                return [json.dumps(addressed(answer, request)) for answer in printed], 'events' in one
        error = {'code': -32601, 'message': 'Method not found'}
        return [json.dumps({'jsonrpc': '2.0', 'id': request['id'], 'error': error})], False

    def close(self):
        self.http.shutdown()
        self.http.server_close()


def resolve(answer, printed):
    members = {'answer': 'body', 'events': 'events'}
    return {name: printed[value][members[name]] if name in members and isinstance(value, str) else value
            for name, value in answer.items()}


def addressed(answer, request):
    task = {'id': request['params']['id']} if 'id' in request['params'] else {}
    return {**answer, 'id': request['id'], 'result': {**answer['result'], **task}}


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        upstream = self.server.upstream
        if self.path == upstream.path:
            self.send(200, json.dumps(upstream.card()))
        else:
            self.send(404, '{}')

    def do_POST(self):
        texts, are_events = self.server.upstream.answer(json.loads(self.rfile.read(int(self.headers['content-length']))))
        if are_events:
            self.send(200, ''.join(f'data: {text}\n\n' for text in texts), 'text/event-stream')
        else:
            self.send(200, texts[0])

    def send(self, status, text, media_type='application/json'):
        body = text.encode()
        self.send_response(status)
        self.send_header('content-type', media_type)
        self.send_header('content-length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass
