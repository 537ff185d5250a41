"""Where the bytes of a snapshot are still kept: where its record says, else wherever the same content is."""

from __future__ import annotations

from collections import deque
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
        self._places: dict[str, deque[Payload]] = {}
        self._as_of = -1

    def look_again(self) -> None:
        """Forget where bytes were missing: they may be there now, or could not be read for a moment."""
        self._as_of = -1

    def find(self, image: Image) -> Image | None:
        """Return the image with bytes that are there and are the recorded ones; None where there are none.

        Where the recorded place lost them, every snapshot and undo record is asked for the same content. A place that
        lost them too is not asked again before ``look_again``, or before the timeline grew: however many images lost
        the same content, each place is asked once.
        """
        if self._payloads.intact(image):
            return image
        if not isinstance(image.state, Content):
            return None
        places = self._known().get(image.state.sha256, deque())
        while places:
            other = Image(image.state, places[0])
            if self._payloads.intact(other):
                return other
            places.popleft()
        return None

    def was_pruned(self, image: Image) -> bool:
        """Tell whether an image lost its bytes because of the limits."""
        return is_pruned(self._log.read(), image.payload)

    def _known(self) -> dict[str, deque[Payload]]:
        timeline = self._log.read()
        if self._as_of != timeline.next_seq:
            found: dict[str, dict[Payload, None]] = {}
            for image in self._images():
                if isinstance(image.state, Content) and image.payload is not None:
                    found.setdefault(image.state.sha256, {})[image.payload] = None
            self._places = {
                digest: deque(place for place in places if not is_pruned(timeline, place))
                for digest, places in found.items()
            }
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
