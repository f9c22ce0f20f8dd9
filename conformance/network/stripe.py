#!/usr/bin/env python3
"""A Stripe-shaped server: billing meter events with their summaries, and PaymentIntents; see `standin.py`.

    stripe.py PORT FILE [SHARE SEED]

| Line | What happened |
|---|---|
| `meter_event` | usage was counted: `identifier`, `customer`, `value`, `timestamp` |
| `intent` | a PaymentIntent came to a status: `id`, `status`, `amount`, `captured` |
| `request` | somebody asked, whatever came of it |

An identifier counts once, as there; an `Idempotency-Key` is answered again as it was answered first.
"""

import sys
import time

sys.dont_write_bytecode = True

import standin

SECRET = 'sk_test_judge'
AGE_SECONDS_MAX = 35 * 86400
AHEAD_SECONDS_MAX = 300
METER = 'mtr_judge'


def bad(message, code='parameter_invalid', status=400, kind='invalid_request_error'):
    return status, {'error': {'type': kind, 'code': code, 'message': message}}


class Stripe(standin.Service):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.events, self.intents = {}, {}

    def handle(self, method, path, query, form, headers):
        if standin.secret_of(headers) != SECRET:
            return bad('Invalid API Key provided', status=401)
        if (method, path) == ('POST', '/v1/billing/meter_events'):
            return self.count(form)
        if method == 'GET' and path.startswith('/v1/billing/meters'):
            return self.meters(path, query)
        if path.startswith('/v1/payment_intents'):
            return self.intent(method, path.split('/')[3:], query, form)
        return bad(f'Unrecognized request URL ({method}: {path})', status=404)

    # --- Meters ---------------------------------------------------------------------------------------------------

    def count(self, form):
        name, identifier = form.get('event_name', ''), form.get('identifier') or f'auto-{time.monotonic_ns()}'
        customer, value = form.get('payload[stripe_customer_id]'), form.get('payload[value]', '')
        at = form.get('timestamp', str(int(time.time())))
        now = time.time()
        if not 0 < len(name) <= 100 or len(identifier) > 100 or not customer or not value.isdigit() or not at.isdigit():
            return bad(f'not a meter event: {form}')
        if not now - AGE_SECONDS_MAX <= int(at) <= now + AHEAD_SECONDS_MAX:
            return bad('The timestamp must be within the past 35 days and at most 5 minutes ahead', 'timestamp_invalid')
        if identifier in self.events:
            return bad(f'An event already exists with identifier {identifier}.', 'duplicate_meter_event')
        event = {'identifier': identifier, 'customer': customer, 'value': int(value), 'timestamp': int(at)}
        self.keep('meter_event', event_name=name, **event)
        self.events[identifier] = event
        return 200, {
            'object': 'billing.meter_event',
            'created': int(now),
            'event_name': name,
            'identifier': identifier,
            'livemode': False,
            'timestamp': int(at),
            'payload': {'stripe_customer_id': customer, 'value': value},
        }

    def meters(self, path, query):
        parts = path.split('/')[4:]
        if not parts:
            return 200, {'object': 'list', 'has_more': False, 'data': [{'id': METER, 'object': 'billing.meter'}]}
        if parts[1:] != ['event_summaries']:
            return bad('no such meter', status=404)
        start, end = int(query['start_time']), int(query['end_time'])
        mine = [e for e in self.events.values() if e['customer'] == query['customer'] and start <= e['timestamp'] < end]
        summary = {
            'id': 'mtrusg_1',
            'object': 'billing.meter_event_summary',
            'meter': parts[0],
            'livemode': False,
            'start_time': start,
            'end_time': end,
            'aggregated_value': float(sum(e['value'] for e in mine)),
        }
        return 200, {'object': 'list', 'has_more': False, 'data': [summary] if mine else [], 'url': path}

    # --- Payments -------------------------------------------------------------------------------------------------

    def intent(self, method, rest, query, form):
        if method == 'GET' and rest == ['search']:
            found = [
                one
                for one in self.intents.values()
                if any(f"'{value}'" in query.get('query', '') for value in one['metadata'].values())
            ]
            return 200, {'object': 'search_result', 'data': found, 'has_more': False}
        if method == 'POST' and not rest:
            return self.create(form)
        one = self.intents.get(rest[0]) if rest else None
        if one is None:
            return bad('No such payment_intent', 'resource_missing', 404)
        if method == 'GET':
            return 200, one
        step = rest[1] if len(rest) > 1 else ''
        wanted = {
            'capture': ('requires_capture', 'succeeded'),
            'cancel': ('requires_capture', 'canceled'),
            'confirm': ('requires_confirmation', 'requires_capture'),
        }.get(step)
        if wanted is None or one['status'] != wanted[0]:
            return bad(f'This PaymentIntent is {one["status"]}', 'payment_intent_unexpected_state')
        return 200, self.reach(one, wanted[1])

    def create(self, form):
        amount = form.get('amount', '')
        if not amount.isdigit() or not form.get('currency'):
            return bad('amount and currency are needed')
        metadata = {k[9:-1]: v for k, v in form.items() if k.startswith('metadata[')}
        one = {
            'id': f'pi_{len(self.intents) + 1:06}',
            'object': 'payment_intent',
            'amount': int(amount),
            'currency': form['currency'],
            'capture_method': form.get('capture_method', 'automatic'),
            'amount_received': 0,
            'metadata': metadata,
            'status': 'requires_confirmation',
        }
        self.intents[one['id']] = one
        if form.get('confirm') == 'true':
            return 200, self.reach(one, 'requires_capture' if one['capture_method'] == 'manual' else 'succeeded')
        return 200, self.reach(one, 'requires_confirmation')

    def reach(self, one, status):
        one['status'] = status
        if status == 'succeeded':
            one['amount_received'] = one['amount']
        self.keep(
            'intent',
            id=one['id'],
            status=status,
            amount=one['amount'],
            captured=one['amount_received'],
            metadata=one['metadata'],
        )
        return one


if __name__ == '__main__':
    standin.main(Stripe)
