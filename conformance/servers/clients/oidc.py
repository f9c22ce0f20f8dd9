"""Signs in at the provider in each way it has, and calls the agent with what that gave.

    oidc.py BASE_URL HOOK_URL

Written by hand with nothing but the standard library: it is the provider and the agent that are put to the test.
"""

import base64
import hashlib
import http.server
import json
import pathlib
import secrets
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import browser
from lines import check

DEVICE = 'urn:ietf:params:oauth:grant-type:device_code'
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def call(url, form=None, **headers):
    """Status and JSON of a request; a form is posted."""
    body = urllib.parse.urlencode(form).encode() if isinstance(form, dict) else form
    headers = {name.replace('_', '-'): value for name, value in headers.items()}
    request = urllib.request.Request(url, body, headers=headers)
    try:
        with OPENER.open(request, timeout=20) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read() or b'null')


def agent(url, token=None):
    message = {'messageId': 'm-1', 'role': 'ROLE_USER', 'parts': [{'text': 'echo hi'}]}
    body = {'jsonrpc': '2.0', 'id': 1, 'method': 'SendMessage', 'params': {'message': message}}
    headers = {'Authorization': f'Bearer {token}'} if token else {}
    status, answer = call(url, json.dumps(body).encode(), Content_Type='application/json', A2A_Version='1.0', **headers)
    return status, (answer.get('result') or {}).get('task', {}).get('status', {}).get('state')


def main():
    base = sys.argv[1]
    card = call(f'{base}/.well-known/agent-card.json')[1]
    rpc = card['supportedInterfaces'][0]['url']
    about = call(card['securitySchemes']['oidc']['openIdConnectSecurityScheme']['openIdConnectUrl'])[1]
    token = about['token_endpoint']
    served = (200, 'TASK_STATE_COMPLETED')

    def tell(*given):
        check('OIDC', *given)

    tell('without', agent(rpc)[0], 401)
    tell('wrong', agent(rpc, 'ey.ey.ey')[0], 401)

    basic = base64.b64encode(b'test-machine:test-machine-secret').decode()
    _, got = call(token, {'grant_type': 'client_credentials', 'scope': 'agent'}, Authorization=f'Basic {basic}')
    tell('client-credentials', agent(rpc, got.get('access_token')), served)
    form = {'client_id': 'test-machine-post', 'client_secret': 'test-machine-post-secret', 'scope': 'agent'}
    _, got = call(token, {'grant_type': 'client_credentials', **form})
    tell('client-credentials-post', agent(rpc, got.get('access_token')), served)

    for deny in (False, True):
        scope = {'client_id': 'test-person', 'scope': 'openid agent'}
        _, device = call(about['device_authorization_endpoint'], scope)
        poll = {'grant_type': DEVICE, 'client_id': 'test-person', 'device_code': device['device_code']}
        if not deny:
            tell('device-pending', call(token, poll)[1].get('error'), 'authorization_pending')
        browser.approve(device['verification_uri_complete'], deny=deny)
        _, got = call(token, poll)
        if deny:
            tell('device-denied', got.get('error'), 'access_denied')
        else:
            tell('device', agent(rpc, got.get('access_token')), served)
            tell('device-id-token', got.get('id_token', '').count('.'), 2)
            form = {'client_id': 'test-person', 'refresh_token': got.get('refresh_token')}
            _, fresh = call(token, {'grant_type': 'refresh_token', **form})
            tell('refresh', agent(rpc, fresh.get('access_token')), served)
    _, device = call(about['device_authorization_endpoint'], {'client_id': 'test-person', 'scope': 'openid agent'})
    browser.approve(device['verification_uri'], device['user_code'])
    poll = {'grant_type': DEVICE, 'client_id': 'test-person', 'device_code': device['device_code']}
    tell('device-code-typed', agent(rpc, call(token, poll)[1].get('access_token')), served)

    tell('code', agent(rpc, by_code(about, token)), served)
    basic = base64.b64encode(b'test-machine-short:test-machine-short-secret').decode()
    _, got = call(token, {'grant_type': 'client_credentials', 'scope': 'agent'}, Authorization=f'Basic {basic}')
    time.sleep(3.2)
    tell('expired', agent(rpc, got.get('access_token'))[0], 401)


def by_code(about, token):
    """The authorization code with PKCE, as a program at a terminal does it."""
    seen = {}

    class Landing(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            seen.update(urllib.parse.parse_qsl(urllib.parse.urlparse(self.path).query))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(('127.0.0.1', 0), Landing) as landing:
        threading.Thread(target=landing.serve_forever, daemon=True).start()
        verifier = secrets.token_urlsafe(48)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip('=')
        back = f'http://127.0.0.1:{landing.server_port}/callback'
        query = {
            'client_id': 'test-person', 'response_type': 'code', 'redirect_uri': back, 'scope': 'openid agent',
            'state': 's-1', 'nonce': 'n-1', 'code_challenge': challenge, 'code_challenge_method': 'S256',
        }
        browser.sign_in(f'{about["authorization_endpoint"]}?{urllib.parse.urlencode(query)}')
        landing.shutdown()
    form = {'client_id': 'test-person', 'code': seen.get('code', ''), 'redirect_uri': back, 'code_verifier': verifier}
    return call(token, {'grant_type': 'authorization_code', **form})[1].get('access_token')


if __name__ == '__main__':
    main()
