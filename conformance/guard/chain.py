"""A chain to ask: accounts with their keys, and the tables that trust is made of, over the two calls peers use.

    chain = Chain()
    chain.account('alice', key)                                   # can sign
    chain.agent('alice', registered_days=100, active=1, kyc=2)    # is registered

The answers have the forms that nodes give: 64-bit numbers as text, `active` as 0 or 1, an unknown account as HTTP 500.
"""

import json
import time

from loopback import Server

DAY = 86400
ACCOUNT, ROWS = '/v1/chain/get_account', '/v1/chain/get_table_rows'


class Chain(Server):
    def __init__(self):
        self.accounts, self.tables = {}, {}
        # Accounts have no active permission.
        self.no_active = False
        super().__init__()

    # --- What there is --------------------------------------------------------------------------------------------

    def account(self, name, *keys, threshold=1, weights=None):
        """Keys are those of the active permission; the owner permission has one that nobody may use here."""
        weights = weights or [1] * len(keys)
        listed = [{'key': text(key), 'weight': weight} for key, weight in zip(keys, weights, strict=True)]
        self.accounts[name] = {'threshold': threshold, 'keys': listed, 'accounts': [], 'waits': []}

    def agent(self, account, /, registered_days=400, active=1, kyc=None, stake=0, score=None, owner='', **row):
        registered = int(time.time()) - registered_days * DAY
        self.row(
            'agentcore',
            'agents',
            account,
            {
                'account': account,
                'owner': owner,
                'pending_owner': '',
                'name': account.title(),
                'description': f'agent {account}',
                'endpoint': f'https://{account}.test',
                'protocol': 'https',
                'capabilities': '["compute"]',
                'total_jobs': '0',
                'registered_at': str(registered),
                'active': active,
                'claim_deposit': '0',
                'deposit_payer': '',
                **row,
            },
        )
        if kyc is not None:
            self.kyc(account, kyc)
        if stake:
            self.row('eosio', 'voters', account, {'owner': account, 'staked': str(stake)})
        if score is not None:
            self.row(
                'agentfeed',
                'agentscores',
                account,
                {
                    'agent': account,
                    'total_score': '1',
                    'total_weight': '1',
                    'feedback_count': '1',
                    'avg_score': str(score),
                    'last_updated': '0',
                },
            )

    def kyc(self, name, level):
        claims = {'kyc_provider': 'test', 'kyc_level': f'test:{level}', 'kyc_date': '0'}
        self.row('eosio.proton', 'usersinfo', name, {'acc': name, 'name': name, 'verified': 1, 'kyc': [claims]})

    def row(self, code, table, key, row):
        self.tables[code, table, key] = row

    # --- What is answered -----------------------------------------------------------------------------------------

    def answer(self, path, body):
        asked = json.loads(body or b'{}')
        if path == ACCOUNT:
            return self.answer_account(asked['account_name'])
        if path == ROWS:
            return self.answer_rows(asked)
        return 404, {'code': 404, 'message': 'Not Found'}

    def answer_account(self, name):
        found = self.accounts.get(name)
        if found is None:
            message = f'unknown key (boost::tuples::tuple<bool, eosio::chain::name>): (0 {name})'
            return 500, {'code': 500, 'message': 'Internal Service Error', 'error': {'details': [{'message': message}]}}
        if self.no_active:
            return 200, {'account_name': name, 'permissions': []}
        owner = {'threshold': 1, 'keys': [], 'accounts': [], 'waits': []}
        return 200, {
            'account_name': name,
            'permissions': [
                {'perm_name': 'active', 'parent': 'owner', 'required_auth': found},
                {'perm_name': 'owner', 'parent': '', 'required_auth': owner},
            ],
        }

    def answer_rows(self, asked):
        key = (asked['code'], asked['table'], asked['lower_bound'])
        found = self.tables.get(key) if asked['scope'] == asked['code'] else None
        return 200, {'rows': [found] if found else [], 'more': False, 'next_key': ''}


def text(key):
    return key if isinstance(key, str) else key.public
