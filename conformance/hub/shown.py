"""How one dialect shows what another said: the documented mappings of `docs/dialects`, and nothing else."""


def to(dialect, told):
    """What a caller of this dialect has to see, if the agent said this."""
    if told.error:
        return told.but(error=NUMBERS.get(dialect, {}).get(told.error, told.error))
    return {'0.1': first, 'XPR': first, 'agent-native': native}.get(dialect, lambda told: told)(told)


# Numbers that a dialect has no use for, by what it has instead (`crates/wire/src/codes.rs`).
NUMBERS = {
    'agent-native': {'UnsupportedOperation': 'MethodNotFound'},
    'XPR': {'UnsupportedOperation': 'InvalidParams'},
}
LESS = {'rejected': 'failed', 'auth-required': 'input-required', 'message': 'completed'}


def first(told):
    """0.1 and XPR: fewer states, no direct replies; closing words are also the first artifact."""
    told = told.but(state=LESS.get(told.state, told.state))
    words = ((('text', told.text),) if told.text else ()) + tuple(('data', data) for data in told.data)
    if told.state == 'completed' and not told.artifacts and words:
        return told.but(artifacts=(('', words),))
    return told


def native(told):
    """agent-native: the text of artifacts is also the message of the status."""
    told = told.but(state=LESS.get(told.state, told.state))
    if told.artifacts and not told.text and told.state == 'completed':
        words = [part[1] for _, parts in told.artifacts for part in parts if part[0] == 'text']
        told = told.but(text='\n'.join(words))
    return told

