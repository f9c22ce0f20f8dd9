"""A server made with a2a-sdk 1.x, with its 0.3 layer switched on, on all three bindings.

    server.py --http PORT --grpc PORT --public URL --public-grpc HOST:PORT [--bare]
"""

import argparse
import asyncio
import json
import pathlib
import sys

import grpc
import httpx
import uvicorn

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from a2a.compat.v0_3 import a2a_v0_3_pb2_grpc
from a2a.compat.v0_3.grpc_handler import CompatGrpcHandler
from a2a.server.request_handlers import DefaultRequestHandler, GrpcHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import BasePushNotificationSender, InMemoryPushNotificationConfigStore, InMemoryTaskStore
from a2a.types import a2a_pb2 as pb
from a2a.types import a2a_pb2_grpc
from agent_v1 import Player
from google.protobuf.json_format import ParseDict
from starlette.applications import Starlette


def card(options):
    text = (ROOT / 'card_v1.json').read_text(encoding='utf-8')
    value = json.loads(text.replace('$http', options.public).replace('$grpc', options.public_grpc))
    if options.bare:
        value['capabilities'] = {'streaming': False, 'pushNotifications': False}
    return ParseDict(value, pb.AgentCard())


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--http', type=int, required=True)
    parser.add_argument('--grpc', type=int, required=True)
    parser.add_argument('--public', required=True)
    parser.add_argument('--public-grpc', required=True)
    parser.add_argument('--bare', action='store_true')
    options = parser.parse_args()

    public = card(options)
    extended = pb.AgentCard()
    extended.CopyFrom(public)
    extended.description = 'The extended card'
    configs = None if options.bare else InMemoryPushNotificationConfigStore()
    sender = configs and BasePushNotificationSender(httpx.AsyncClient(), configs)
    handler = DefaultRequestHandler(
        Player(), InMemoryTaskStore(), public, push_config_store=configs, push_sender=sender,
        extended_agent_card=None if options.bare else extended,
    )
    app = Starlette(routes=[
        *create_agent_card_routes(public),
        *create_jsonrpc_routes(handler, '/rpc', enable_v0_3_compat=True),
        *create_rest_routes(handler, path_prefix='/rest', enable_v0_3_compat=True),
    ])
    server = grpc.aio.server()
    a2a_pb2_grpc.add_A2AServiceServicer_to_server(GrpcHandler(handler), server)
    a2a_v0_3_pb2_grpc.add_A2AServiceServicer_to_server(CompatGrpcHandler(handler), server)
    server.add_insecure_port(f'127.0.0.1:{options.grpc}')
    await server.start()
    await uvicorn.Server(uvicorn.Config(app, '127.0.0.1', options.http, log_level='warning')).serve()


if __name__ == '__main__':
    asyncio.run(main())
