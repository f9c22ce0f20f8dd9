"""What the clients here share: a line for each check, and a look at what the hook got."""

import asyncio

import httpx


def check(binding, name, got, want):
    """Prints the outcome: the runner counts, and a client goes on."""
    print('\t'.join(['ok' if got == want else 'FAIL', binding, name, '' if got == want else f'got {got!r}']), flush=True)


async def deliveries(hook, token):
    """What came to the hook with this token, as soon as something did."""
    async with httpx.AsyncClient(trust_env=False) as client:
        for _ in range(40):
            seen = [one for one in (await client.get(hook)).json() if one['token'] == token]
            if seen:
                return seen
            await asyncio.sleep(0.1)
    return []
