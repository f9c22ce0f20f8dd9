"""Who judges the judge: every way in which money could be miscounted, forged on purpose, must be found out.

The forged records begin as those of an honest run: a few orders of every kind, one kill, a biller that failed. Each
counterfeit changes one thing, and names the check that has to see it.
"""

import copy

import names
import scene
import tribunal
from tribunal import (
    Case,
    billed_exactly,
    billed_once,
    contexts_are_the_asker_s,
    counted_once,
    every_answer_is_a_row,
    every_row_was_told,
    first_answers_only_once,
    metric_is_the_rows,
    no_drift,
    one_order_one_booking,
    places_add_up,
    put_to_the_test,
    refusals_are_right,
    under_their_key,
)


def honest():
    """Records of an honest run."""
    told, bookings, usage = [], [], []
    taken = {}

    def answer(order, kind, why='first', status=200, code=None, booking=None, replayed=False):
        told.append(
            {
                'order': order,
                'key': order % scene.KEYS,
                'kind': kind,
                'why': why,
                'tries': 1,
                'status': status,
                'code': code,
                'booking': booking,
                'at': '2026-11-16T00:00:00.000000Z',
                'replayed': replayed,
                'echoed': True,
            }
        )

    kinds = [*scene.KINDS] * 3
    for order, kind in enumerate(kinds):
        if kind in scene.REFUSED:
            answer(order, kind, status=409, code=scene.REFUSED[kind])
            continue
        booking, key = f'b{order}', f'key-{order % scene.KEYS}'
        answer(order, kind, booking=booking)
        if kind in ('twice', 'again'):
            answer(order, kind, 'beside' if kind == 'twice' else 'again', booking=booking, replayed=True)
        if kind == 'other':
            answer(order, kind, 'other', status=409, code='idempotency_conflict')
        slot = 's0' if order % 2 else None
        taken['v1', slot] = taken.get(('v1', slot), 0) + 1
        customer = scene.CUSTOMERS[order % scene.KEYS]
        bookings.append({'booking': booking, 'venue': 'v1', 'slot': slot, 'key': key, 'status': 'pending'})
        usage.append(
            {
                'booking': booking,
                'cents': 25,
                'key': key,
                'customer': customer,
                'batch': f'batch-{customer}' if customer else None,
                'synced_at': 7 if customer else None,
            }
        )
    told[0] = {**told[0], 'tries': 2}
    biller = [{'what': 'request', 'way': '429'}, {'what': 'request', 'way': 'lose'}, {'what': 'request', 'way': 'ok'}]
    for customer in {row['customer'] for row in usage} - {None}:
        value = sum(row['customer'] == customer for row in usage)
        biller.append(
            {'what': 'meter_event', 'identifier': f'agnt-batch-{customer}', 'customer': customer, 'value': value}
        )
    metrics = [{names.METERED: {(): float(count)}, names.DRIFT: {(): 0.0}} for count in (5, len(usage))]
    slots = [{'venue': 'v1', 'slot': 's0', 'capacity': 1000, 'taken': taken['v1', 's0']}]
    return Case(
        told,
        [f'key-{n}' for n in range(scene.KEYS)],
        bookings,
        usage,
        slots,
        {'v1': 'house'},
        metrics,
        biller,
        {'status': 0, 'said': ''},
        [3],
        1,
    )


COUNTERFEITS = []


def counterfeit(check):
    def keep(change):
        COUNTERFEITS.append((check, change))
        return change

    return keep


def first(lines, **wanted):
    return next(line for line in lines if all(line[name] == value for name, value in wanted.items()))


@counterfeit(every_answer_is_a_row)
def a_booking_is_lost(case):
    case.bookings.pop()


@counterfeit(every_row_was_told)
def a_retry_booked_twice(case):
    case.bookings.append({**case.bookings[0], 'booking': 'b-again'})
    case.usage.append({**case.usage[0], 'booking': 'b-again'})


@counterfeit(one_order_one_booking)
def a_repetition_is_another_booking(case):
    first(case.told, why='again')['booking'] = case.bookings[0]['booking'] + 'x'


@counterfeit(one_order_one_booking)
def two_orders_are_merged(case):
    lines = [line for line in case.told if line['kind'] == 'plain']
    lines[1]['booking'] = lines[0]['booking']


@counterfeit(one_order_one_booking)
def what_cannot_be_had_is_booked(case):
    first(case.told, kind='full').update(status=200, code=None, booking='b-full')


@counterfeit(refusals_are_right)
def a_conflict_is_taken_for_a_repetition(case):
    first(case.told, why='other').update(status=200, code=None, booking=first(case.told, kind='other')['booking'])


@counterfeit(refusals_are_right)
def a_plain_order_is_refused(case):
    case.told.append({**case.told[0], 'status': 403, 'code': 'tier_required', 'booking': None})


@counterfeit(first_answers_only_once)
def a_repetition_is_not_marked(case):
    first(case.told, why='beside')['replayed'] = False


@counterfeit(contexts_are_the_asker_s)
def the_old_context_is_echoed(case):
    first(case.told, why='again')['echoed'] = False


@counterfeit(counted_once)
def a_booking_is_not_counted(case):
    case.usage.pop()


@counterfeit(counted_once)
def a_booking_is_counted_twice(case):
    case.usage.append(dict(case.usage[0]))


@counterfeit(counted_once)
def a_booking_costs_a_dollar(case):
    case.usage[0]['cents'] = 100


@counterfeit(counted_once)
def a_refusal_is_counted(case):
    case.usage.append({**case.usage[0], 'booking': 'b-refused'})


@counterfeit(under_their_key)
def a_booking_is_with_another_key(case):
    case.bookings[0]['key'] = case.usage[0]['key'] = 'key-3'


@counterfeit(places_add_up)
def a_place_is_given_twice(case):
    case.slots[0]['taken'] -= 1


@counterfeit(places_add_up)
def a_slot_is_overbooked(case):
    case.slots[0]['capacity'] = 1


@counterfeit(metric_is_the_rows)
def a_count_is_lost_in_a_crash(case):
    case.metrics[-1][names.METERED][()] -= 1


@counterfeit(metric_is_the_rows)
def the_counter_begins_anew(case):
    case.metrics.insert(1, {names.METERED: {(): 0.0}, names.DRIFT: {(): 0.0}})


@counterfeit(metric_is_the_rows)
def a_repetition_is_counted(case):
    case.metrics[-1][names.METERED][()] += 1


@counterfeit(no_drift)
def there_is_drift(case):
    case.metrics[-1][names.DRIFT][()] = 1.0


@counterfeit(no_drift)
def nobody_looks_for_drift(case):
    del case.metrics[-1][names.DRIFT]


@counterfeit(no_drift)
def the_check_finds_something(case):
    case.check['status'] = 1


@counterfeit(billed_exactly)
def a_batch_is_never_sent(case):
    case.biller.pop()


@counterfeit(billed_exactly)
def a_lost_answer_is_sent_under_another_name(case):
    case.biller.append({**case.biller[-1], 'identifier': 'agnt-batch-new'})


@counterfeit(billed_exactly)
def a_customer_pays_for_another(case):
    meters = [line for line in case.biller if line['what'] == 'meter_event']
    meters[0]['value'] += 1
    meters[1]['value'] -= 1


@counterfeit(billed_exactly)
def a_booking_is_counted_everywhere_but_nobody_was_told(case):
    """Rows, metric and biller agree with each other; only the clients know better."""
    case.bookings.append({**case.bookings[0], 'booking': 'b-ghost', 'slot': None})
    case.usage.append({**case.usage[0], 'booking': 'b-ghost'})
    case.metrics[-1][names.METERED][()] += 1
    first(case.biller, what='meter_event', customer=case.usage[0]['customer'])['value'] += 1


@counterfeit(billed_once)
def an_identifier_is_counted_twice(case):
    meters = [line for line in case.biller if line['what'] == 'meter_event']
    case.biller.append({**meters[0], 'value': 0})


@counterfeit(billed_once)
def usage_is_called_sent_and_was_not(case):
    first(case.usage, customer='cus_ana')['batch'] = 'batch-nobody-has'


@counterfeit(billed_once)
def usage_stays_unsent(case):
    first(case.usage, customer='cus_ana')['synced_at'] = None


@counterfeit(put_to_the_test)
def nothing_was_on_its_way(case):
    case.kills[:] = [0, 0]


@counterfeit(put_to_the_test)
def the_biller_was_kind(case):
    case.biller = [line for line in case.biller if line.get('way') not in ('429', '500', '503')]


def run():
    """Shows that the honest records pass, and that each counterfeit is found by the check that is meant for it."""
    wrong = [verdict.promise for verdict in tribunal.judge(honest()) if not verdict.kept]
    if wrong:
        print(f'FAIL honest records are refused: {wrong}')
    for check, change in COUNTERFEITS:
        case = copy.deepcopy(honest())
        change(case)
        found = [look for look in check(case) if look]
        name = change.__name__.replace('_', ' ')
        print(f'{"ok" if found else "FAIL":5}{name}: {found[0] if found else "nobody noticed"}')
        wrong += [] if found else [name]
    unproven = {check.__name__ for check in tribunal.CHECKS} - {check.__name__ for check, _ in COUNTERFEITS}
    if unproven:
        print(f'FAIL no counterfeit tries {", ".join(sorted(unproven))}')
    failed = len(wrong) + len(unproven)
    print(f'{len(COUNTERFEITS) + 1 - failed} passed, {failed} failed')
    return 1 if failed else 0
