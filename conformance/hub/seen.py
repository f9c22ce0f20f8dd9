"""What a call came to, in words that all dialects share, and how each dialect's answer is read into them."""

import base64
import dataclasses

from a2a.types import a2a_pb2 as pb
from google.protobuf.json_format import MessageToDict

# Numbers of JSON-RPC errors, by the names the specification gives them.
ERRORS = {
    -32600: 'InvalidRequest',
    -32601: 'MethodNotFound',
    -32602: 'InvalidParams',
    -32603: 'Internal',
    -32001: 'TaskNotFound',
    -32002: 'TaskNotCancelable',
    -32003: 'PushNotificationNotSupported',
    -32004: 'UnsupportedOperation',
    -32005: 'ContentTypeNotSupported',
    -32006: 'InvalidAgentResponse',
}
CODES = {name: code for code, name in ERRORS.items()}


@dataclasses.dataclass(frozen=True)
class Seen:
    """A task, a direct reply or an error. `task` is the id, which is nobody's to compare."""

    # As 0.3 spells it; `message` is a direct reply.
    state: str | None = None
    text: str = ''
    # Name and parts of each.
    artifacts: tuple = ()
    error: str | None = None
    # Data parts of what was said, beside its text.
    data: tuple = ()
    task: str | None = dataclasses.field(default=None, compare=False)

    def __str__(self):
        if self.error:
            return f'{self.error} ({CODES.get(self.error, "?")})'
        made = ', '.join(f'{name}{list(parts)}' for name, parts in self.artifacts)
        said = f' {list(self.data)}' if self.data else ''
        return f'{self.state} {self.text!r}{said} [{made}]'

    def but(self, **changes):
        return dataclasses.replace(self, **changes)


def refused(error, why=''):
    return Seen(error=error, text='')


# --- From the objects of the official SDK, which shows 0.3 as 1.0 -----------------------------------------------------


def sdk(value):
    if isinstance(value, pb.Message):
        return Seen('message', ''.join(part.text for part in value.parts), data=sdk_data(value), task=value.task_id or None)
    state = pb.TaskState.Name(value.status.state).removeprefix('TASK_STATE_').lower().replace('_', '-')
    text = ''.join(part.text for part in value.status.message.parts)
    artifacts = tuple((made.name, tuple(map(sdk_part, made.parts))) for made in value.artifacts)
    return Seen(state, text, artifacts, data=sdk_data(value.status.message), task=value.id)


def sdk_data(message):
    return tuple(sdk_part(part)[1] for part in message.parts if part.WhichOneof('content') == 'data')


def sdk_part(part):
    kind = part.WhichOneof('content')
    if kind == 'text':
        return 'text', part.text
    if kind == 'data':
        return 'data', repr(plain(MessageToDict(part)['data']))
    return kind, part.raw if kind == 'raw' else part.url, part.filename, part.media_type


def plain(value):
    """Numbers of protocol buffers are all fractions; those of JSON need not be."""
    match value:
        case dict():
            return {key: plain(one) for key, one in sorted(value.items())}
        case list():
            return [plain(one) for one in value]
        case bool() | None | str():
            return value
        case _:
            return float(value)


# --- From the JSON of 0.1, agent-native and XPR -----------------------------------------------------------------------


def json(value):
    status = value['status']
    words = (status.get('message') or {}).get('parts') or []
    text = ''.join(part.get('text') or '' for part in words)
    artifacts = tuple(
        (made.get('name') or '', tuple(map(json_part, made['parts']))) for made in value.get('artifacts') or ()
    )
    data = tuple(repr(plain(part['data'])) for part in words if part.get('data') is not None)
    return Seen(status['state'], text, artifacts, data=data, task=value['id'])


def json_part(part):
    match part:
        case {'text': str(text)}:
            return 'text', text
        case {'data': data} if data is not None:
            return 'data', repr(plain(data))
    file = part['file']
    named = file.get('name') or '', file.get('mimeType') or ''
    if file.get('bytes') is not None:
        return 'raw', base64.b64decode(file['bytes'] + '=='), *named
    return 'url', file['uri'], *named


def joined(artifacts):
    """Neighbouring texts of an artifact as one: where a chunk ends is not what it says."""
    whole = []
    for name, parts in artifacts:
        kept = []
        for part in parts:
            if part[0] == 'text' and kept and kept[-1][0] == 'text':
                kept[-1] = ('text', kept[-1][1] + part[1])
            else:
                kept.append(part)
        whole.append((name, tuple(kept)))
    return tuple(whole)
