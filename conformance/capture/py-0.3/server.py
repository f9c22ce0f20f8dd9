"""A server made with a2a-sdk 0.3, on all three bindings.

    server.py --http PORT --grpc PORT --public URL --public-grpc HOST:PORT [--bare]

`--bare` leaves out everything a card can refuse: streaming, push notifications, the extended card.
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

from a2a.grpc import a2a_pb2_grpc
from a2a.server.apps import A2ARESTFastAPIApplication, A2AStarletteApplication
from a2a.server.request_handlers import DefaultRequestHandler, GrpcHandler
from a2a.server.tasks import BasePushNotificationSender, InMemoryPushNotificationConfigStore, InMemoryTaskStore
from a2a.types import AgentCard
from agent import Player


def card(options):
    text = (ROOT / 'card.json').read_text(encoding='utf-8')
    value = json.loads(text.replace('$http', options.public).replace('$grpc', options.public_grpc))
    if options.bare:
        value['capabilities'] = {'streaming': False, 'pushNotifications': False}
        value['supportsAuthenticatedExtendedCard'] = False
    return AgentCard.model_validate(value)


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--http', type=int, required=True)
    parser.add_argument('--grpc', type=int, required=True)
    parser.add_argument('--public', required=True)
    parser.add_argument('--public-grpc', required=True)
    parser.add_argument('--bare', action='store_true')
    options = parser.parse_args()

    public = card(options)
    extended = public.model_copy(update={'description': 'The extended card'})
    configs = None if options.bare else InMemoryPushNotificationConfigStore()
    sender = configs and BasePushNotificationSender(httpx.AsyncClient(), configs)
    handler = DefaultRequestHandler(Player(), InMemoryTaskStore(), push_config_store=configs, push_sender=sender)
    extended = None if options.bare else extended

    app = A2ARESTFastAPIApplication(public, handler, extended_agent_card=extended).build(rpc_url='/rest')
    A2AStarletteApplication(public, handler, extended_agent_card=extended).add_routes_to_app(app, rpc_url='/rpc')

    server = grpc.aio.server()
    a2a_pb2_grpc.add_A2AServiceServicer_to_server(GrpcHandler(public, handler), server)
    server.add_insecure_port(f'127.0.0.1:{options.grpc}')
    await server.start()
    await uvicorn.Server(uvicorn.Config(app, '127.0.0.1', options.http, log_level='warning')).serve()


if __name__ == '__main__':
    asyncio.run(main())
