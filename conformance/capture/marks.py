"""Tells the recorder what a Python script is about to do."""

import asyncio
import contextlib
import json
import os
import urllib.request


def post(path, value):
    url = f'http://127.0.0.1:{os.environ["CAPTURE_CONTROL"]}{path}'
    request = urllib.request.Request(url, json.dumps(value).encode(), {'Content-Type': 'application/json'})
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as error:
        raise RuntimeError(error.read().decode()) from None


@contextlib.asynccontextmanager
async def case(dialect, **mark):
    """Whatever passes inside is written under the names in `mark`: see `recorder.py`.

    With `may_fail` in the mark a refusal is written down like any other answer.
    """
    await asyncio.to_thread(post, '/begin', {'dialect': dialect, **mark})
    try:
        yield
    except Exception as error:
        if not mark.get('may_fail'):
            raise
        print(f'refused: {error}', flush=True)
    print(await asyncio.to_thread(post, '/end', {}), flush=True)
