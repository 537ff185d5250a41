"""What is damaged, missing or left over beside a transcript. Looks, changes nothing."""

from __future__ import annotations

from collections.abc import Iterator

from sessions.rewind.journal import Journal
from sessions.rewind.payloads import Payloads
from sessions.rewind.timeline import Timeline
from sessions.transcript.outline import Finding


def audit(timeline: Timeline, payloads: Payloads, journal: Journal) -> Iterator[Finding]:
    """Yield a finding for every snapshot that is gone or damaged, every unreadable record, every unfinished rewind.

    Reads every snapshot once.
    """
    if timeline.damaged:
        count = f"{timeline.damaged} record{'' if timeline.damaged == 1 else 's'}"
        yield Finding("damaged_record", f"{count} of the timeline cannot be read", "skipped")
    if journal.intent.exists():
        yield Finding("unfinished_rewind", str(journal.intent), "finished at the next opening for writing")
    for touch in timeline.touches:
        if touch.before.payload is not None and not payloads.intact(touch.before):
            yield Finding("lost_snapshot", f"{touch.path} (turn {touch.turn})", "the file would be left alone")
    for step in timeline.steps:
        try:
            journal.done(step.record)
        except (OSError, ValueError) as error:
            yield Finding("lost_undo", f"rewind {step.rewind}: {error}", "it cannot be undone or redone")
