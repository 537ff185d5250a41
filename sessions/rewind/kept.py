"""Where the bytes of a snapshot are still kept: where its record says, else wherever the same content is."""

from __future__ import annotations

from collections.abc import Iterator

from sessions.rewind.journal import Journal
from sessions.rewind.log import CaptureLog
from sessions.rewind.payloads import Payloads
from sessions.rewind.retention import is_pruned
from sessions.rewind.states import Content, Image, Payload


class Kept:
    """Finds bytes in the sidecar of one session."""

    def __init__(self, log: CaptureLog, journal: Journal, payloads: Payloads) -> None:
        self._log = log
        self._journal = journal
        self._payloads = payloads
        self._places: dict[str, list[Payload]] = {}
        self._as_of = -1

    def find(self, image: Image) -> Image | None:
        """Return the image with bytes that are there and are the recorded ones; None where there are none.

        Where the recorded place lost them, every snapshot and undo record is asked for the same content.
        """
        if self._payloads.intact(image):
            return image
        if not isinstance(image.state, Content):
            return None
        others = (Image(image.state, payload) for payload in self._known().get(image.state.sha256, ()))
        return next((other for other in others if self._payloads.intact(other)), None)

    def was_pruned(self, image: Image) -> bool:
        """Tell whether an image lost its bytes because of the limits."""
        return is_pruned(self._log.read(), image.payload)

    def _known(self) -> dict[str, list[Payload]]:
        timeline = self._log.read()
        if self._as_of != timeline.next_seq:
            self._places = {}
            for image in self._images():
                if isinstance(image.state, Content) and image.payload is not None:
                    places = self._places.setdefault(image.state.sha256, [])
                    if image.payload not in places:
                        places.append(image.payload)
            self._as_of = timeline.next_seq
        return self._places

    def _images(self) -> Iterator[Image]:
        timeline = self._log.read()
        yield from timeline.images()
        for record in timeline.records.keys() - timeline.pruned_records:
            try:
                yield from (change.before for change in self._journal.done(record).changes)
            except (OSError, ValueError):
                continue
