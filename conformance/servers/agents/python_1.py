"""An agent made with a2a-sdk 1.x: 1.0 over all three bindings.

    python_1.py --http PORT --grpc PORT [--card-http PORT] [--tls CERT KEY] [--client-ca CA]
                [--oidc ISSUER AUDIENCE [--flow oidc|device|client]]

`--tls` puts TLS on everything, `--client-ca` wants a client certificate for all calls, and then the card is at
`--card-http`, since nobody shows a certificate to read a card. `--oidc` wants a token of that issuer for all calls;
`--flow` says how the card tells people to get one: by OpenID Connect, or by a flow of OAuth with its addresses.
"""

import argparse
import asyncio
import contextlib
import datetime
import pathlib
import ssl
import uuid

import behaviour
import grpc
import httpx
import uvicorn
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler, GrpcHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import BasePushNotificationSender, InMemoryPushNotificationConfigStore, InMemoryTaskStore
from a2a.types import a2a_pb2 as pb
from a2a.types import a2a_pb2_grpc
from google.protobuf.json_format import MessageToDict, ParseDict
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

WAITING = (pb.TASK_STATE_INPUT_REQUIRED, pb.TASK_STATE_AUTH_REQUIRED)


def now():
    return datetime.datetime.now(datetime.timezone.utc).isoformat().replace('+00:00', 'Z')


class Player(AgentExecutor):
    def __init__(self, base):
        self.base, self.canceled = base, {}

    async def execute(self, context, event_queue):
        task, where = context.task_id, context.context_id
        canceled = self.canceled[task] = asyncio.Event()
        answering = bool(context.current_task and context.current_task.status.state in WAITING)
        ids = {'taskId': task, 'contextId': where}

        def message(parts, **more):
            return {'messageId': str(uuid.uuid4()), 'role': 'ROLE_AGENT', 'parts': parts, 'contextId': where, **more}

        for step in behaviour.steps(context.get_user_input(), answering, self.base):
            match step:
                case ['task', name]:
                    status = {'state': behaviour.state(name), 'timestamp': now()}
                    history = [MessageToDict(context.message)]
                    value = {'id': task, 'contextId': where, 'status': status, 'history': history}
                    event = ParseDict(value, pb.Task())
                case ['status', name, text]:
                    status = {'state': behaviour.state(name), 'timestamp': now()}
                    if text:
                        status['message'] = message([{'text': text}], taskId=task)
                    event = ParseDict({**ids, 'status': status}, pb.TaskStatusUpdateEvent())
                case ['artifact', artifact, flags]:
                    event = ParseDict({**ids, 'artifact': artifact, **flags}, pb.TaskArtifactUpdateEvent())
                case ['message', parts]:
                    event = ParseDict(message(parts), pb.Message())
                case ['sleep', seconds]:
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(canceled.wait(), seconds)
                    continue
                case ['hold']:
                    await canceled.wait()
            if canceled.is_set():
                return
            await event_queue.enqueue_event(event)

    async def cancel(self, context, event_queue):
        if context.task_id in self.canceled:
            self.canceled[context.task_id].set()
        status = {'state': 'TASK_STATE_CANCELED', 'timestamp': now()}
        value = {'taskId': context.task_id, 'contextId': context.context_id, 'status': status}
        await event_queue.enqueue_event(ParseDict(value, pb.TaskStatusUpdateEvent()))


def card(options, base):
    # Without TLS as this SDK's own client wants it: an address, not a URL.
    grpc_url = f'https://localhost:{options.grpc}' if options.tls else f'127.0.0.1:{options.grpc}'
    value = {
        'name': 'Python 1',
        'description': 'An agent of the tests on the Python SDK',
        'version': '1.0.0',
        'supportedInterfaces': [
            {'url': f'{base}/rpc', 'protocolBinding': 'JSONRPC', 'protocolVersion': '1.0'},
            {'url': f'{base}/rest', 'protocolBinding': 'HTTP+JSON', 'protocolVersion': '1.0'},
            {'url': grpc_url, 'protocolBinding': 'GRPC', 'protocolVersion': '1.0'},
        ],
        'capabilities': {'streaming': True, 'pushNotifications': True, 'extendedAgentCard': True},
        # Declared and not required: it is for the extended card.
        'securitySchemes': {'bearer': {'httpAuthSecurityScheme': {'scheme': 'bearer'}}},
        'defaultInputModes': ['text/plain', 'application/json', 'application/octet-stream'],
        'defaultOutputModes': ['text/plain'],
        'skills': behaviour.skills(),
    }
    if options.client_ca:
        value['securitySchemes'] = {'mtls': {'mtlsSecurityScheme': {}}}
        value['securityRequirements'] = [{'schemes': {'mtls': {'list': []}}}]
    if options.oidc:
        url = f'{options.oidc[0]}/.well-known/openid-configuration'
        token, scopes = f'{options.oidc[0]}/token', {'agent': 'Use the agent'}
        device = {'deviceAuthorizationUrl': f'{options.oidc[0]}/device/auth', 'tokenUrl': token, 'scopes': scopes}
        scheme, needed = {
            'oidc': ({'openIdConnectSecurityScheme': {'openIdConnectUrl': url}}, []),
            'device': ({'oauth2SecurityScheme': {'flows': {'deviceCode': device}}}, ['agent']),
            'client': (
                {'oauth2SecurityScheme': {'flows': {'clientCredentials': {'tokenUrl': token, 'scopes': scopes}}}},
                ['agent'],
            ),
        }[options.flow]
        value['securitySchemes'] = {options.flow: scheme}
        value['securityRequirements'] = [{'schemes': {options.flow: {'list': needed}}}]
    return value


async def paper(_):
    return PlainTextResponse('the text of the paper\n')


def certified(options, wants_client):
    """What uvicorn needs to know about TLS."""
    if not options.tls:
        return {}
    more = {'ssl_ca_certs': options.client_ca, 'ssl_cert_reqs': ssl.CERT_REQUIRED} if wants_client else {}
    return {'ssl_certfile': options.tls[0], 'ssl_keyfile': options.tls[1], **more}


def open_port(server, options):
    if not options.tls:
        return server.add_insecure_port(f'127.0.0.1:{options.grpc}')
    chain, key = (pathlib.Path(path).read_bytes() for path in options.tls)
    roots = pathlib.Path(options.client_ca).read_bytes() if options.client_ca else None
    credentials = grpc.ssl_server_credentials([(key, chain)], roots, require_client_auth=roots is not None)
    return server.add_secure_port(f'127.0.0.1:{options.grpc}', credentials)


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--http', type=int, required=True)
    parser.add_argument('--grpc', type=int, required=True)
    parser.add_argument('--card-http', type=int)
    parser.add_argument('--tls', nargs=2, metavar=('CERT', 'KEY'))
    parser.add_argument('--client-ca')
    parser.add_argument('--oidc', nargs=2, metavar=('ISSUER', 'AUDIENCE'))
    parser.add_argument('--flow', choices=('oidc', 'device', 'client'), default='oidc')
    options = parser.parse_args()

    base = f'https://localhost:{options.http}' if options.tls else f'http://127.0.0.1:{options.http}'
    public = ParseDict(card(options, base), pb.AgentCard())
    extended = pb.AgentCard()
    extended.CopyFrom(public)
    extended.description = 'The extended card'
    configs = InMemoryPushNotificationConfigStore()
    handler = DefaultRequestHandler(
        Player(base), InMemoryTaskStore(), public, push_config_store=configs,
        push_sender=BasePushNotificationSender(httpx.AsyncClient(trust_env=False), configs),
        extended_agent_card=extended,
    )
    app = Starlette(routes=[
        # First, because those of HTTP+JSON take the first part of a path they do not know for a tenant.
        Route('/files/paper.txt', paper),
        *create_agent_card_routes(public),
        *create_jsonrpc_routes(handler, '/rpc'),
        *create_rest_routes(handler, path_prefix='/rest'),
    ])
    interceptors = []
    if options.oidc:
        import token_check
        check = token_check.Check(*options.oidc)
        app.add_middleware(token_check.Middleware, check=check)
        interceptors = [token_check.Interceptor(check)]
    server = grpc.aio.server(interceptors=interceptors)
    a2a_pb2_grpc.add_A2AServiceServicer_to_server(GrpcHandler(handler), server)
    open_port(server, options)
    await server.start()

    def serve(app, port, wants_client):
        config = uvicorn.Config(
            app, '127.0.0.1', port, log_level='warning', timeout_graceful_shutdown=1, **certified(options, wants_client)
        )
        return uvicorn.Server(config).serve()

    serving = [serve(app, options.http, bool(options.client_ca))]
    if options.card_http:
        serving.append(serve(Starlette(routes=create_agent_card_routes(public)), options.card_http, False))
    await asyncio.gather(*serving)


if __name__ == '__main__':
    asyncio.run(main())
