"""A server made with fasta2a 0.2, which speaks 0.1.

    server.py --http PORT --grpc PORT --public URL --public-grpc HOST:PORT
"""

import argparse
import contextlib

import anyio
import uvicorn
from fasta2a import FastA2A, Worker
from fasta2a.broker import InMemoryBroker
from fasta2a.schema import Artifact, Message, TextPart
from fasta2a.storage import InMemoryStorage


class Player(Worker):
    async def run_task(self, params):
        word = params['message']['parts'][0]['text'].split()[0]
        await self.storage.update_task(params['id'], state='working')
        await anyio.sleep(0.5)
        if word == 'crash':
            raise RuntimeError('the agent fell over')
        parts = [TextPart(type='text', text='Done, Grüße 世界 🌍')]
        artifacts = [Artifact(name='report.md', index=0, parts=parts)]
        message = Message(role='agent', parts=parts)
        await self.storage.update_task(params['id'], state='completed', message=message, artifacts=artifacts)

    async def cancel_task(self, params):
        await self.storage.update_task(params['id'], state='canceled')

    def build_message_history(self, task_history):
        return task_history

    def build_artifacts(self, result):
        return []


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--http', type=int, required=True)
    parser.add_argument('--grpc', type=int, required=True)
    parser.add_argument('--public', required=True)
    parser.add_argument('--public-grpc', required=True)
    options = parser.parse_args()
    storage, broker = InMemoryStorage(), InMemoryBroker()

    @contextlib.asynccontextmanager
    async def lifespan(app):
        async with app.task_manager, Player(broker=broker, storage=storage).run():
            yield

    app = FastA2A(
        storage=storage,
        broker=broker,
        name='Capture',
        url=options.public,
        version='1.2.3',
        description='Says one thing',
        provider={'organization': 'Example Org', 'url': 'https://org.example'},
        skills=[{'id': 'play', 'name': 'Play', 'description': 'Plays', 'tags': ['test'], 'input_modes': ['text'],
                 'output_modes': ['text']}],
        lifespan=lifespan,
    )
    uvicorn.run(app, host='127.0.0.1', port=options.http, log_level='warning')


if __name__ == '__main__':
    main()
