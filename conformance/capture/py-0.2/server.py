"""A server made with a2a-sdk 0.2, over JSON-RPC; the same script serves the early and the late releases of that line.

    server.py --http PORT --grpc PORT --public URL --public-grpc HOST:PORT [--bare]
"""

import argparse
import json
import pathlib
import sys

import httpx
import uvicorn

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from a2a.server import tasks
from a2a.server.apps import A2AStarletteApplication
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.types import AgentCard
from agent import Player


def card(options, description):
    text = (ROOT / 'card.json').read_text(encoding='utf-8')
    value = json.loads(text.replace('$http', options.public).replace('$grpc', options.public_grpc))
    # What 0.2 does not have yet.
    del value['securitySchemes']['mtls'], value['skills'][0]['security'], value['additionalInterfaces']
    del value['protocolVersion']
    value['description'] = description or value['description']
    if options.bare:
        value['capabilities'] = {'streaming': False, 'pushNotifications': False}
        value['supportsAuthenticatedExtendedCard'] = False
    return AgentCard.model_validate(value)


def pushing():
    """The releases before 0.2.9 or so have one object for what became a store and a sender."""
    http = httpx.AsyncClient()
    if hasattr(tasks, 'InMemoryPushNotifier'):
        return {'push_notifier': tasks.InMemoryPushNotifier(http)}
    store = tasks.InMemoryPushNotificationConfigStore()
    return {'push_config_store': store, 'push_sender': tasks.BasePushNotificationSender(http, store)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--http', type=int, required=True)
    parser.add_argument('--grpc', type=int, required=True)
    parser.add_argument('--public', required=True)
    parser.add_argument('--public-grpc', required=True)
    parser.add_argument('--bare', action='store_true')
    options = parser.parse_args()

    handler = DefaultRequestHandler(Player(), tasks.InMemoryTaskStore(), **({} if options.bare else pushing()))
    extended = None if options.bare else card(options, 'The extended card')
    app = A2AStarletteApplication(card(options, None), handler, extended_agent_card=extended).build(rpc_url='/rpc')
    uvicorn.run(app, host='127.0.0.1', port=options.http, log_level='warning')


if __name__ == '__main__':
    main()
