"""The system calls of the server, as `strace` saw them, and the order they happened in.

`strace` stops every thread at every call, so its lines are in one true order. A call that another thread interrupted
fills two lines, its beginning and its end; both places matter here: a sync has happened when it has *ended*, a reply is
out of our hands when its write *begins*.
"""

import dataclasses
import re

READS = ['read', 'readv', 'recvfrom', 'recvmsg']
WRITES = ['write', 'writev', 'sendto', 'sendmsg', 'pwrite64', 'pwritev']
SYNCS = ['fsync', 'fdatasync']
# Whole pages, so that a text can be found in what was written. `-y` names the file or socket behind every descriptor.
COMMAND = ['strace', '-f', '-tt', '-y', '-s', '8192', '-e', f'trace={",".join(READS + WRITES + SYNCS)}', '-o']

LINE = re.compile(r'^(\d+) +[\d:.]+ (.*)$')
RESUMED = re.compile(r'^<\.\.\. (\w+) resumed>(.*)$')
CALL = re.compile(r'^(\w+)\(\d+<(.*?)> *[,)]')
RESULT = re.compile(r'\) += (-?\d+)')


@dataclasses.dataclass
class Call:
    thread: str
    name: str
    # The path of the file, or `socket:[…]`.
    on: str
    text: str
    result: int
    # Line numbers; equal unless something else happened in between.
    begins: int
    ends: int

    def is_in(self):
        return self.name in READS and self.on.startswith('socket:') and self.result > 0

    def is_out(self):
        return self.name in WRITES and self.on.startswith('socket:') and self.result > 0

    def is_log_write(self):
        return self.name in WRITES and self.on.endswith('-wal') and self.result > 0

    def is_log_sync(self):
        return self.name in SYNCS and self.on.endswith('-wal') and self.result == 0

    def is_log_header(self):
        """The 32 bytes at the beginning of the log, which SQLite writes when the log starts over after a checkpoint."""
        return self.is_log_write() and self.result == 32 and self.text.rstrip().endswith(', 32, 0) = 32')


def parse(lines):
    """The completed calls, in the order of their ends."""
    calls, open_calls = [], {}
    for number, line in enumerate(lines):
        match = LINE.match(line)
        if not match:
            continue
        thread, text = match.groups()
        begins = number
        if resumed := RESUMED.match(text):
            begins, beginning = open_calls.pop((thread, resumed[1]), (number, ''))
            text = beginning + resumed[2]
        elif text.endswith('<unfinished ...>'):
            open_calls[thread, text.partition('(')[0]] = (number, text.removesuffix('<unfinished ...>'))
            continue
        call, results = CALL.match(text), RESULT.findall(text)
        if call and results:
            # The text of a call may itself hold what looks like a result; the true one comes last.
            calls.append(Call(thread, call[1], call[2], text, int(results[-1]), begins, number))
    return calls


@dataclasses.dataclass
class Passage:
    """The way of one piece of text through the server: read, written to the log, synced, shown."""

    asked: Call | None
    kept: Call | None
    synced: Call | None
    shown: Call | None
    # Syncs of the log between the asking and the showing, by the thread that wrote it there. Those of a checkpoint,
    # which has a thread of its own, hold nobody up.
    syncs: int

    def breach(self, durability):
        """What is wrong with it; `None` if nothing is."""
        if self.shown is None:
            return 'was never shown'
        if self.kept is None:
            return f'was shown in line {self.shown.begins + 1} of the trace and not written to the log before'
        if durability == 'full' and self.synced is None:
            return (f'was written to the log in line {self.kept.ends + 1} and shown in line {self.shown.begins + 1} '
                    'of the trace, without a completed sync of the log in between')
        if durability == 'normal' and self.syncs:
            return f'waited for {self.syncs} syncs of the log before line {self.shown.begins + 1} of the trace showed it'
        return None


def passage(calls, text):
    """Follows a text. It is looked for in what was written, so no other commit's sync can stand in for its own."""
    asked = next((call for call in calls if call.is_in() and text in call.text), None)
    shown = next((call for call in calls if call.is_out() and text in call.text), None)
    if shown is None:
        return Passage(asked, None, None, None, 0)
    before = [call for call in calls if call.begins < shown.begins]
    writes = [call for call in before if call.is_log_write() and call.ends < shown.begins]
    kept = next((call for call in writes if text in call.text), None)
    if kept is None:
        return Passage(asked, None, None, shown, 0)
    syncs = [call for call in before if call.is_log_sync()]
    synced = next((call for call in syncs if call.begins > kept.ends and call.ends < shown.begins), None)
    since = asked.ends if asked else kept.ends
    own = [call for call in syncs if call.thread == kept.thread and call.ends > since]
    # With `normal`, too, SQLite syncs the header of a log that starts over: once per checkpoint, not once per commit.
    headers = [call for call in before if call.is_log_header() and call.thread == kept.thread and call.ends > since]
    own = own[len(headers):]
    return Passage(asked, kept, synced, shown, len(own))
