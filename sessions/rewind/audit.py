"""What is damaged, missing or left over beside a transcript. Looks, changes nothing.

What the limits removed is no damage.
"""

from __future__ import annotations

from collections.abc import Iterator

from sessions.rewind.journal import Journal
from sessions.rewind.payloads import Payloads
from sessions.rewind.recorded import Step
from sessions.rewind.retention import is_pruned
from sessions.rewind.timeline import Timeline
from sessions.transcript.outline import Finding


def audit(timeline: Timeline, payloads: Payloads, journal: Journal) -> Iterator[Finding]:
    """Yield a finding for every snapshot that is gone or damaged, every unreadable record, every unfinished rewind.

    Reads every snapshot once.
    """
    yield from damage(timeline)
    if journal.intent.exists():
        yield Finding("unfinished_rewind", str(journal.intent), "finished at the next opening for writing")
    for touch in timeline.touches:
        payload = touch.before.payload
        if payload is not None and not is_pruned(timeline, payload) and not payloads.intact(touch.before):
            yield Finding("lost_snapshot", f"{touch.path} (turn {touch.turn})", "the file would be left alone")
    for step in timeline.steps:
        if step.record not in timeline.pruned_records:
            yield from _audit_step(step, payloads, journal)
    if not timeline.turns and not timeline.steps and not timeline.touches and (journal.sidecar / "turns").exists():
        yield Finding("lost_timeline", f"{journal.sidecar} holds snapshots and no record of them", "kept")


def _audit_step(step: Step, payloads: Payloads, journal: Journal) -> Iterator[Finding]:
    try:
        record = journal.done(step.record)
    except (OSError, ValueError) as error:
        yield Finding("lost_undo", f"rewind {step.rewind}: {error}", "it cannot be undone or redone")
        return
    if record.cut is not None and not payloads.intact(record.cut.tails[0]):
        yield Finding("lost_undo", f"rewind {step.rewind}: what it removed is damaged", "it cannot be undone or redone")
    for change in record.changes:
        if not payloads.intact(change.before):
            where = f"{change.path}, as it was before rewind {step.rewind}"
            yield Finding("lost_snapshot", where, "the file would be left alone")


def damage(timeline: Timeline) -> Iterator[Finding]:
    """Yield what is missing from a timeline. A line cut short by a crash is none: nobody was told of it."""
    if timeline.missing:
        where = f"records {', '.join(str(seq) for seq in timeline.missing[:5])} of the timeline cannot be read"
        yield Finding("damaged_record", where, "files are not taken back past them")
