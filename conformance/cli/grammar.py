"""The text form of the output, read strictly: fields, blocks, nothing else."""

import re

from harness import holds

LABELS = set(
    'Task ID|Context ID|State|Updated|Status message|Resume|Message ID|Role|Artifact ID|Artifact name|'
    'Artifact description|Append|Last chunk|Text|Data|File name|File media type|File size|File URL|History|Metadata|'
    'Event|Next page token|Total|Saved|'
    # of a card
    'Card|Name|Description|Version|Provider|Streaming|Push notifications|Extended card|Interface|Selected|'
    'Security scheme|Requires|Extension|Skill|Signature|Valid'.split('|')
)
FIELD = re.compile(r'^([A-Z][A-Za-z0-9 ]*): (.+)$')
OPENER = re.compile(r'^([A-Z][A-Za-z0-9 ]*):$')
# C0 but tab and newline, DEL, C1.
CONTROL = re.compile(r'[\x00-\x08\x0b-\x1f\x7f\x80-\x9f]')


def parse(text, labels=LABELS):
    """The `(label, value)` pairs of an output; the value of a block is its lines, joined, without the indent."""
    found = CONTROL.search(text)
    holds(not found, f'a control character {found and found.group()!r} in {text[:1500]!r}')
    holds(not text or text.endswith('\n'), f'the last line is not ended: {text[-200:]!r}')
    pairs, block = [], None
    for number, line in enumerate(text.split('\n')[:-1], 1):
        where = f'line {number} of {text[:1500]!r}'
        if block is not None:
            if line == '':
                pairs.append((block[0], '\n'.join(block[1])))
                block = None
                continue
            holds(line.startswith('  '), f'a line of a block is not indented: {line!r}, {where}')
            block[1].append(line[2:])
            continue
        field, opener = FIELD.match(line), OPENER.match(line)
        holds(field or opener, f'neither a field nor a block: {line!r}, {where}')
        label = (field or opener).group(1)
        holds(labels is None or label in labels, f'the label {label!r} is not in the list: {where}')
        if field:
            pairs.append((label, field.group(2)))
        else:
            block = (label, [])
    holds(block is None, f'the block {block and block[0]!r} is not closed: {text[-500:]!r}')
    return pairs


def values(pairs, label):
    return [value for name, value in pairs if name == label]


def last(pairs, label):
    found = values(pairs, label)
    holds(found, f'no {label!r} among {pairs}')
    return found[-1]
