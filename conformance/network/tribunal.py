"""The promises of the money run, each with the reason why it is looked at. Four places must tell the same story.

| Place | Who wrote it |
|---|---|
| `told` | the clients, when an answer came |
| `bookings`, `usage`, `slots` | the server, read with sqlite3 beside it |
| `metrics` | the server's counters, one scrape per life and one at the end |
| `biller` | the Stripe stand-in, synced before it answered |
"""

import collections
import dataclasses

import names
import scene
from envelope import TRANSIENT


@dataclasses.dataclass
class Case:
    told: list
    keys: list
    bookings: list
    usage: list
    slots: list
    venues: dict
    metrics: list
    biller: list
    check: dict
    kills: list
    bills_killed: int

    @property
    def told_bookings(self):
        return {line['booking'] for line in self.told if line['status'] == 200}

    @property
    def orders(self):
        found = collections.defaultdict(list)
        for line in self.told:
            found[line['order']].append(line)
        return found


@dataclasses.dataclass
class Verdict:
    promise: str
    looked: int
    wrong: list

    @property
    def kept(self):
        return self.looked > 0 and not self.wrong


def every_answer_is_a_row(case):
    """a booking that a client was told of is there

    An acknowledged booking that is gone is the worst there is.
    """
    there = {row['booking'] for row in case.bookings}
    for booking in case.told_bookings:
        yield None if booking in there else f'{booking} was told, and is not in the rows'


def every_row_was_told(case):
    """a booking that is there was told to a client

    Clients ask until they are told, so one that nobody knows of was made twice, or by nobody.
    """
    told = case.told_bookings
    for row in case.bookings:
        yield None if row['booking'] in told else f'{row["booking"]} is in the rows, and nobody was told'


def one_order_one_booking(case):
    """an order is one booking, however often and however simultaneously it is asked for, and answered alike"""
    seen = {}
    for order, lines in case.orders.items():
        good = {line['booking'] for line in lines if line['status'] == 200}
        wanted = 0 if lines[0]['kind'] in scene.REFUSED else 1
        if len(good) != wanted:
            yield f'order {order} ({lines[0]["kind"]}) is the bookings {sorted(map(str, good))}'
        elif good and (other := seen.setdefault(next(iter(good)), order)) != order:
            yield f'orders {other} and {order} are the same booking'
        else:
            yield None


def refusals_are_right(case):
    """what cannot be had is refused, and other content under the same tuple is a conflict"""
    for line in case.told:
        want = {'other': 'idempotency_conflict'}.get(line['why'], scene.REFUSED.get(line['kind']))
        if line['code'] in TRANSIENT:
            continue
        yield (
            None
            if line['code'] == want
            else (
                f'order {line["order"]} ({line["kind"]}, {line["why"]}): {line["status"]} {line["code"]}, want {want}'
            )
        )


def first_answers_only_once(case):
    """of all answers to one order at most one is not marked as a repetition

    One may be missing: it was on its way when the server was killed.
    """
    for order, lines in case.orders.items():
        fresh = [line for line in lines if line['status'] == 200 and not line['replayed']]
        yield None if len(fresh) <= 1 else f'order {order}: {len(fresh)} answers that are no repetition'


def contexts_are_the_asker_s(case):
    """an answer, repeated or not, echoes the context of the envelope that it answers"""
    for line in case.told:
        yield None if line['echoed'] else f'order {line["order"]}: another context'


def counted_once(case):
    """every booking has one usage event of 25 cents, under the key it was made with, and nothing else has"""
    usage = collections.Counter(row['booking'] for row in case.usage)
    keys = {row['booking']: row['key'] for row in case.bookings}
    for booking in keys:
        yield None if usage[booking] == 1 else f'{booking} is counted {usage[booking]} times'
    for row in case.usage:
        right = row['cents'] == scene.CENTS and keys.get(row['booking']) == row['key']
        yield None if right else f'usage {row} of a booking under {keys.get(row["booking"])}'


def under_their_key(case):
    """a booking belongs to the key that asked for it"""
    keys = {row['booking']: row['key'] for row in case.bookings}
    for line in case.told:
        if line['status'] == 200 and line['booking'] in keys:
            right = keys[line['booking']] == case.keys[line['key']]
            yield (
                None
                if right
                else f'order {line["order"]} under {case.keys[line["key"]]} is with {keys[line["booking"]]}'
            )


def places_add_up(case):
    """a slot has as many places taken as it has bookings, and never more than it has"""
    booked = collections.Counter((row['venue'], row['slot']) for row in case.bookings if row['slot'])
    for slot in case.slots:
        count = booked[slot['venue'], slot['slot']]
        right = slot['taken'] == count and slot['taken'] <= slot['capacity']
        yield None if right else f'slot {slot}: {count} bookings'


def metric_is_the_rows(case):
    """`a2a_metered_events_total` is the number of usage events, although the server was killed

    It is rebuilt from the rows at each start, so it never falls, and at the end it is their number.
    """
    values = [names.total(scrape, names.METERED) for scrape in case.metrics if scrape]
    for before, after in zip(values, values[1:], strict=False):
        yield None if before <= after else f'it fell from {before:.0f} to {after:.0f}'
    yield None if values and values[-1] == len(case.usage) else f'{values[-1:]} for {len(case.usage)} usage events'


def no_drift(case):
    """drift is 0, as a gauge and as `sabir billing check`"""
    last = case.metrics[-1]
    yield None if names.DRIFT in last else f'there is no {names.DRIFT}'
    yield None if names.total(last, names.DRIFT) == 0 else f'{names.DRIFT} is {names.total(last, names.DRIFT)}'
    yield None if case.check['status'] == 0 else f'sabir billing check: {case.check}'


def billed_exactly(case):
    """the biller counted, for every customer, as many as there are bookings under the customer's keys

    Compared with the rows and with what the clients were told, which are two places.
    """
    counted = collections.Counter()
    for line in case.biller:
        if line['what'] == 'meter_event':
            counted[line['customer']] += line['value']
    owed, told = collections.Counter(), collections.Counter()
    for row in case.usage:
        owed[row['customer']] += 1
    for key in {line['booking']: line['key'] for line in case.told if line['status'] == 200}.values():
        told[scene.CUSTOMERS[key]] += 1
    for customer in {*counted, *owed, *told} - {None}:
        right = counted[customer] == owed[customer] == told[customer]
        yield (
            None
            if right
            else (
                f'{customer}: the biller has {counted[customer]}, the rows {owed[customer]}, the clients {told[customer]}'
            )
        )
    yield None if not counted[None] else 'somebody without a customer was billed'


def billed_once(case):
    """an identifier was counted once, and a usage event is in one batch that the biller has"""
    identifiers = collections.Counter(line['identifier'] for line in case.biller if line['what'] == 'meter_event')
    for identifier, count in identifiers.items():
        yield None if count == 1 else f'{identifier} was counted {count} times'
    for row in case.usage:
        if row['customer']:
            there = any(str(row['batch']) in identifier for identifier in identifiers) if row['batch'] else False
            yield None if row['synced_at'] is not None and there else f'{row} is with nobody'


def put_to_the_test(case):
    """the server was killed with envelopes on their way, orders were asked for again, and the biller failed in every way

    Without that all the rest would be easy.
    """
    yield None if any(case.kills) or not case.kills else 'nothing was ever on its way when it was killed'
    for kind in scene.KINDS:
        yield None if any(line['kind'] == kind for line in case.told) else f'no order was of the kind {kind}'
    yield None if any(line['replayed'] for line in case.told) else 'no answer was a repetition'
    ways = {line['way'] for line in case.biller if line['what'] == 'request'}
    yield None if ways & {'429', '500', '503'} else 'the biller never refused'
    yield None if 'lose' in ways else 'the biller never lost an answer'
    yield None if 'ok' in ways else 'the biller never worked'


CHECKS = [
    every_answer_is_a_row,
    every_row_was_told,
    one_order_one_booking,
    refusals_are_right,
    first_answers_only_once,
    contexts_are_the_asker_s,
    counted_once,
    under_their_key,
    places_add_up,
    metric_is_the_rows,
    no_drift,
    billed_exactly,
    billed_once,
    put_to_the_test,
]


def judge(case):
    verdicts = []
    for check in CHECKS:
        looks = list(check(case))
        verdicts.append(Verdict(check.__doc__.split('\n')[0], len(looks), [look for look in looks if look]))
    return verdicts
