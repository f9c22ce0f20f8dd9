"""What appending a chunk does to the parts of an artifact, as Sabir stores it: plain text goes on with plain text."""


def is_plain_text(part):
    return 'text' in part and not part.get('metadata') and not part.get('filename')


def joined_parts(parts, more):
    """The parts of an artifact after a chunk was appended: text of one media type is one part."""
    if not parts or not more:
        return [*parts, *more]
    last, first = parts[-1], more[0]
    goes_on = is_plain_text(last) and is_plain_text(first) and last.get('mediaType') == first.get('mediaType')
    if not goes_on:
        return [*parts, *more]
    return [*parts[:-1], {**last, 'text': last['text'] + first['text']}, *more[1:]]
