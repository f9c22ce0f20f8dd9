"""One reader of one task's stream: what it may be shown next, across any number of cuts.

This is the client's half of the promise about `Last-Event-ID`. It does no I/O, so that `--self-test` can show it every
kind of wrong stream.
"""

from record import CONTINUES, ENDS, SUBSCRIBES, brief, settles, task_of


class Follower:
    """Expects event `last + 1`, always; or, where `last` is `None`, first a snapshot that says where it stands."""

    def __init__(self, record, who, task=None, last=0):
        self.record, self.who, self.task, self.last = record, who, task, last
        self.settled = None

    def headers(self):
        """How to take up the stream again. Without anything seen it is not taken up but begun."""
        return {'Last-Event-ID': str(self.last)} if self.last else {}

    def take(self, number, event):
        """One frame was shown. False if it was so wrong that there is no point in reading on."""
        number = int(number) if number and number.isdigit() else None
        if not self.is_ours(number, event):
            return False
        if self.settled:
            self.record.check(ENDS, False, f'{self.where(number)} came after {self.settled}: {brief(event)}')
            return False
        if self.last is None:
            if not self.open(number, event):
                return False
        else:
            expected = self.last + 1
            kept = self.record.check(CONTINUES, number == expected, lambda: (
                f'{self.where(number)} was shown, {expected} is the next: {brief(event)}'))
            self.record.show_event(self.task, number, event, self.who)
            if not kept:
                return False
        self.last, self.settled = number, settles(event)
        return True

    def is_ours(self, number, event):
        """Events must have a number and be about one task, or nothing else about them can be judged."""
        task = task_of(event) if len(event) == 1 else None
        self.task = self.task or task
        return self.record.check(CONTINUES, number is not None and task == self.task, lambda: (
            f'{self.where(number)}: not a numbered event of this task: {brief(event)}'))

    def open(self, number, event):
        """A snapshot is not an event of the log: it stands for all of them up to its number, and is judged as that."""
        kept = self.record.check(SUBSCRIBES, 'task' in event and not settles(event), lambda: (
            f'{self.where(number)}: a subscription opened with {brief(event)}'))
        if kept:
            self.record.snapshots.append((self.task, number, event['task']))
            self.record.figures['snapshots acknowledged'] += 1
        return kept

    def ended(self):
        """The server ended the stream in an orderly way, which it may do only when there is nothing left to show."""
        return self.record.check(ENDS, self.settled is not None, lambda: (
            f'{self.where(self.last)} was the last of a stream whose task had not settled'))

    def where(self, number):
        return f'task {self.task} event {number} ({self.who})'
