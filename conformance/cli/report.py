"""The compliance report, in the specification's own format, made from the results of a run and nothing else.

Closed on every side: a requirement without a result is `not_measured`, one with a result that is neither a pass nor a
genuine `na` fails its tier, and an id nobody knows is an error.
"""

import json
import re

from registry import REQUIREMENTS, TOTALS

STATUSES = ('pass', 'partial', 'fail', 'not_measured', 'na')
CODES = {
    'A2ACLI_ERR_USAGE': 2,
    'A2ACLI_ERR_CARD_NOT_FOUND': 3,
    'A2ACLI_ERR_CARD_INVALID': 1,
    'A2ACLI_ERR_UNREACHABLE': 3,
    'A2ACLI_ERR_CREDENTIALS_MISSING': 4,
    'A2ACLI_ERR_AUTH_FAILED': 4,
    'A2ACLI_ERR_TIMEOUT': 5,
    'A2ACLI_ERR_INTERNAL': 1,
}
DEFAULTS = (
    'transport_server_preference_order',
    'task_completion_wait_by_default',
    'output_human_readable_text',
    'detail_level_concise',
    'protocol_version_highest_mutual',
    'transport_security_tls_on',
)


class Results:
    """Outcomes by requirement, check, agent and binding."""

    def __init__(self):
        self.rows, self.notes = [], {'defaults': {}, 'codes': set()}

    def add(self, check, agent, binding, outcome, reason=''):
        self.rows.append((check, agent, binding, outcome, reason))

    def of(self, name):
        rows = [row for row in self.rows if name in row[0].ids]
        if name == 'A2ACLI_TX_005':
            # gRPC is one more transport for everything: each gRPC run of the suite counts here as well.
            rows += [row for row in self.rows if row[2] == 'GRPC' and row not in rows]
        return rows

    def status(self, name):
        """The status of a requirement, and why it is not a pass."""
        rows = self.of(name)
        bad = {kind: [row for row in rows if row[3] == kind] for kind in ('fail', 'not_measured', 'na')}
        if not rows:
            return 'not_measured', 'no check ran'
        if bad['fail']:
            return 'fail', '; '.join(sorted({f'{row[0].name} on {row[1]} {row[2]}' for row in bad['fail']}))
        if bad['not_measured']:
            return 'not_measured', '; '.join(sorted({f'{row[0].name}: {row[4]}' for row in bad['not_measured']}))
        if len(bad['na']) == len(rows):
            return 'na', bad['na'][0][4]
        if name == 'A2ACLI_DEFAULT_001' and any(not self.shipped(key) for key in DEFAULTS):
            return 'fail', 'a default is not shipped or not overridable'
        return 'pass', ''

    def shipped(self, key):
        return self.notes['defaults'].get(key) == {'shipped', 'overridable'}

# Where the tool departs from a requirement by default, why, and what restores the rule. The checks of these requirements
# are made with the rule restored, and the departure has a check of its own.
DEVIATIONS = {
    'A2ACLI_VER_001': 'deviation: without --a2a-version, an agent that offers no 1.x is called in the newest older version '
    'it offers, and one line on standard error says so; people with older agents could not get started otherwise. '
    '--a2a-version 1.0, or A2ACLI_A2A_VERSION=1.0, restores the rule',
    'A2ACLI_DEFAULT_001': 'deviation: the default output is text where standard output is no terminal; on a terminal it is '
    'the pretty form, because a person reads it. -o text, or A2ACLI_OUTPUT=text, restores the rule',
    'A2ACLI_OUT_005': 'deviation: as A2ACLI_DEFAULT_001; the pretty form uses colour and a progress line on a terminal, and '
    'the text form never does. -o text restores the rule, --color never or NO_COLOR takes the colour alone away',
    'A2ACLI_CHAT_001': 'deviation: at a terminal the ids are shown by /ids and at the end, and not after every turn, because '
    'they bury the answer. chat -o text prints them after every turn',
}


def evidence(results, name, mutations):
    """What proves a requirement: the checks with the places they ran on, and the mutation they catch."""
    places = {}
    for check, agent, binding, _, _ in results.of(name):
        if name in check.ids:
            places.setdefault(check.name, {}).setdefault(agent, []).append(binding)
    lines = []
    for check in sorted(places):
        where = [
            agent + (f' ({", ".join(sorted(bindings))})' if bindings != ['-'] else '')
            for agent, bindings in sorted(places[check].items())
        ]
        lines.append(f'{check} on {"; ".join(where)}')
    if name == 'A2ACLI_TX_005':
        lines.append('every check of the suite that runs over bindings, over GRPC')
    mutation = mutations.get(name)
    lines.append(f'mutation: {mutation}' if mutation else 'mutation: none recorded')
    return lines


def summary(results):
    found = {}
    for tier, total in TOTALS.items():
        statuses = [results.status(r.id)[0] for r in REQUIREMENTS.values() if r.tier == tier]
        counts = {status: statuses.count(status) for status in STATUSES}
        satisfied = counts['pass'] + counts['na'] == total
        found[f'tier_{tier}'] = {'total': total, **counts, 'satisfied': satisfied}
    return found


def claimed(tiers):
    highest = 0
    for tier in TOTALS:
        if not tiers[f'tier_{tier}']['satisfied']:
            break
        highest = tier
    return highest


def build(results, mutations, tool_version, agents, date):
    tiers = summary(results)
    requirements = {}
    for name, requirement in REQUIREMENTS.items():
        status, note = results.status(name)
        requirements[name] = {
            'tier': requirement.tier,
            'area': requirement.area,
            'spec': requirement.sections,
            'requirement': requirement.meaning,
            'status': status,
            'note': note or DEVIATIONS.get(name, ''),
            'evidence': evidence(results, name, mutations),
        }
    missing = [name for name, value in requirements.items() if value['status'] not in ('pass', 'na')]
    whole = not missing and set(agents) >= {'serve', 'demo', 'python'}
    return {
        'report': {
            'tool': 'sabir',
            'tool_version': tool_version,
            'language': 'Rust',
            'repository': 'conformance/cli in the source of sabir',
            'maintainer': 'the maintainers of sabir',
            'report_date': date,
            'spec_version': '0.2',
            'spec_revision': '2026-08-17',
            'a2a_versions': ['1.0'],
            'agent_tested': 'an agent made with a2a-sdk 1.3.0 (Python); sabir serve; sabir demo-server',
            'agent_tck_conformant': 'unknown',
            'transports_covered': ['HTTP+JSON', 'JSON-RPC', 'gRPC'],
            'tier_claimed': claimed(tiers),
        },
        'summary': tiers,
        'requirements': requirements,
        'default_001_breakdown': {
            key: {
                'shipped': 'shipped' in results.notes['defaults'].get(key, ()),
                'overridable': 'overridable' in results.notes['defaults'].get(key, ()),
                'note': '',
            }
            for key in DEFAULTS
        },
        'error_codes': {
            code: {'emitted': code in results.notes['codes'], 'note': f'exit {number}'}
            for code, number in CODES.items()
        },
        'attestation': {
            'reported_by': 'conformance/cli/run',
            'date': date,
            'statement': 'Generated from a run of the suite; every status is the outcome of the checks it names. '
            + ('All requirements hold, with the deviations that their notes name.' if whole else f'Missing: {", ".join(missing) or "a full set of agents"}.'),
        },
    }


def yaml(value, indent=0):
    """Enough of YAML for the report: maps, lists, scalars. Strings are written as JSON, which YAML reads."""
    pad = '  ' * indent
    if isinstance(value, dict):
        lines = []
        for key, item in value.items():
            if isinstance(item, dict) and indent >= 1 and not any(isinstance(v, (dict, list)) for v in item.values()):
                lines.append(f'{pad}{key}: {{{", ".join(f"{k}: {scalar(v)}" for k, v in item.items())}}}')
            elif isinstance(item, (dict, list)) and item:
                lines.append(f'{pad}{key}:')
                lines.append(yaml(item, indent + 1))
            else:
                lines.append(f'{pad}{key}: {scalar(item)}')
        return '\n'.join(lines)
    return '\n'.join(f'{pad}- {scalar(item)}' for item in value)


def scalar(value):
    if isinstance(value, str):
        plain = re.fullmatch(r'[A-Za-z_][A-Za-z0-9_.+-]*', value) and value not in (
            'yes',
            'no',
            'null',
            'true',
            'false',
        )
        return value if plain else json.dumps(value, ensure_ascii=False)
    return json.dumps(value)


def text(value):
    head = '# The compliance report of the a2a-cli specification. Written by conformance/cli/run; do not edit.\n'
    return head + yaml(value) + '\n'


def without_date(content):
    return re.sub(r'^(\s*(?:report_date|date): ).*$', r'\1-', re.sub(r'date: "[^"]*"', 'date: -', content), flags=re.M)
