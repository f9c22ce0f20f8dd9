"""Card signatures in the hands of others: the signers and verifiers of the Python and the JavaScript SDK."""

import json
import pathlib
import subprocess

from a2a.client.card_resolver import parse_agent_card
from a2a.utils.signing import SignatureVerificationError, create_agent_card_signer, create_signature_verifier
from catalog import JS
from google.protobuf.json_format import MessageToDict
from jwt.api_jwk import PyJWK

HERE = pathlib.Path(__file__).resolve().parent
ALGORITHMS = ['ES256', 'RS256', 'EdDSA']


def python_verifies(card, keys):
    """An empty text, or why not."""
    found = {key['kid']: PyJWK(key) for key in keys['keys']}
    verify = create_signature_verifier(lambda kid, jku: found[kid], ALGORITHMS)
    try:
        verify(parse_agent_card(card))
    except (SignatureVerificationError, KeyError) as why:
        return f'{type(why).__name__}: {why}'
    return ''


def python_signs(card, key):
    header = {'alg': key.algorithm, 'kid': key.kid, 'typ': 'JOSE', 'jku': None}
    return python_signs_with(card, key.pem(), {k: v for k, v in header.items() if v})


def python_signs_with(card, pem, header):
    return MessageToDict(create_agent_card_signer(pem, header)(parse_agent_card(card)))


def javascript(asked):
    command = JS.script(HERE / 'cards.mjs')
    done = subprocess.run(command, input=json.dumps(asked), capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, f'cards.mjs: {done.stderr[-400:]}'
    # The SDK has remarks of its own before that.
    return json.loads(done.stdout.splitlines()[-1])


def javascript_verifies(card, keys):
    return javascript({'do': 'verify', 'card': card, 'keys': keys['keys']}).get('why', '')


def javascript_signs(card, key):
    private = json.loads(private_jwk(key))
    header = {'alg': key.algorithm, 'kid': key.kid}
    return javascript({'do': 'sign', 'card': card, 'key': private, 'header': header})['card']


def private_jwk(key):
    """Node's own words for a private key."""
    program = (
        "const c=require('crypto');"
        "process.stdout.write(JSON.stringify(c.createPrivateKey(require('fs').readFileSync(0)).export({format:'jwk'})))"
    )
    done = subprocess.run(['node', '-e', program], input=key.pem(), capture_output=True, text=True, check=True)
    return json.dumps({**json.loads(done.stdout), 'kid': key.kid, 'alg': key.algorithm})


VERIFIERS = {'Python': python_verifies, 'JavaScript': javascript_verifies}
SIGNERS = {'Python': python_signs, 'JavaScript': javascript_signs}
