#!/usr/bin/env python3
"""An x402 facilitator, and a node of a chain with transactions on it; see `standin.py`.

    x402.py PORT FILE [SHARE SEED]

`POST /verify` and `POST /settle` take `{x402Version, paymentPayload, paymentRequirements}`. A payload is settled once; its
nonce tells it from others. `POST /rpc` answers `eth_getTransactionByHash`, `eth_getTransactionReceipt` and
`eth_blockNumber` from what was put there with `POST /_chain`.

| Line | What happened |
|---|---|
| `settled` | money went over: `nonce`, `amount`, `payer` |
| `verified` | somebody asked whether it would |
"""

import json
import sys

sys.dont_write_bytecode = True

import standin


class Facilitator(standin.Service):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.settled, self.chain, self.height = {}, {}, 1000

    def handle(self, method, path, query, form, headers):
        if path == '/supported':
            return 200, {'kinds': [{'x402Version': 2, 'scheme': 'exact', 'network': 'eip155:8453'}]}
        if path == '/_chain':
            self.chain[form['hash']] = form
            return 200, {}
        if path == '/rpc':
            return 200, self.rpc(form)
        if path in ('/verify', '/settle'):
            return getattr(self, path[1:])(form['paymentPayload'], form['paymentRequirements'])
        return 404, {'error': 'no such path'}

    def judged(self, payload, wanted):
        """Why a payment is not good, or nothing; who pays."""
        inner = payload['payload']['authorization']
        if payload['payload'].get('signature', '').startswith('0xbad'):
            return 'invalid_exact_evm_payload_signature', inner
        if inner['to'].lower() != wanted['payTo'].lower():
            return 'invalid_exact_evm_payload_recipient_mismatch', inner
        if int(inner['value']) < int(wanted.get('amount', wanted.get('maxAmountRequired', 0))):
            return 'invalid_exact_evm_payload_authorization_value', inner
        if inner['nonce'] in self.settled:
            return 'nonce_already_used', inner
        return None, inner

    def verify(self, payload, wanted):
        why, inner = self.judged(payload, wanted)
        self.keep('verified', nonce=inner['nonce'], why=why)
        return 200, {'isValid': why is None, 'payer': inner['from'], **({'invalidReason': why} if why else {})}

    def settle(self, payload, wanted):
        why, inner = self.judged(payload, wanted)
        if why == 'nonce_already_used':
            # The same payment again is the same settlement, which is how a lost answer is found out.
            return 200, self.settled[inner['nonce']]
        if why:
            return 200, {
                'success': False,
                'errorReason': why,
                'payer': inner['from'],
                'transaction': '',
                'network': wanted['network'],
            }
        self.keep('settled', nonce=inner['nonce'], amount=int(inner['value']), payer=inner['from'])
        self.settled[inner['nonce']] = {
            'success': True,
            'payer': inner['from'],
            'network': wanted['network'],
            'transaction': '0x' + inner['nonce'][-64:].rjust(64, '0'),
        }
        return 200, self.settled[inner['nonce']]

    def rpc(self, asked):
        method, params = asked['method'], asked.get('params') or [None]
        known = self.chain.get(params[0]) if isinstance(params[0], str) else None
        result = None
        if method == 'eth_blockNumber':
            result = hex(self.height)
        elif method == 'eth_chainId':
            result = hex(8453)
        elif known and method == 'eth_getTransactionByHash':
            result = known['transaction']
        elif known and method == 'eth_getTransactionReceipt':
            result = known['receipt']
        return {'jsonrpc': '2.0', 'id': asked.get('id'), 'result': result}


def transfer(hash, to, amount, asset, payer='0x' + 'aa' * 20, block=900, good=True):
    """A token transfer as a node tells it: the call, and the log of it."""
    topic = '0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef'
    padded = [f'0x{one[2:].rjust(64, "0")}' for one in (payer, to)]
    data = f'0x{amount:064x}'
    call = f'0xa9059cbb{to[2:].rjust(64, "0")}{amount:064x}'
    return {
        'hash': hash,
        'transaction': {
            'hash': hash,
            'from': payer,
            'to': asset,
            'input': call,
            'value': '0x0',
            'blockNumber': hex(block),
        },
        'receipt': {
            'transactionHash': hash,
            'status': '0x1' if good else '0x0',
            'blockNumber': hex(block),
            'from': payer,
            'to': asset,
            'logs': [{'address': asset, 'topics': [topic, *padded], 'data': data}] if good else [],
        },
    }


def put(standin_, **fields):
    """Puts a transfer on the chain of a stand-in."""
    import http.client

    connection = http.client.HTTPConnection('127.0.0.1', standin_.port, timeout=10)
    connection.request('POST', '/_chain', json.dumps(transfer(**fields)), {'Content-Type': 'application/json'})
    connection.getresponse().read()
    connection.close()


if __name__ == '__main__':
    standin.main(Facilitator)
