"""Which session a reference names."""

from __future__ import annotations

from pathlib import Path

from sessions import catalog, ids, listing
from sessions.belonging import nearest
from sessions.errors import AmbiguousError, NotFoundError, RequestError
from sessions.overview import Overview


def find(root: Path, reference: str, overview: Overview, *, here: str | None = None) -> Path:
    """Return the transcript a reference names.

    Args:
        reference: The id of a session, the beginning of its id, the title it was given, or what a list shows for one;
            tried in this order. Of two projects with a session of that id, the one touched last.
        overview: Asked only where it may be a title.
        here: The directory, resolved, whose session is meant where several projects have one of that id; likewise
            that of another worktree of its repository.

    Raises:
        RequestError: It is empty.
        NotFoundError: There is no such session.
        AmbiguousError: There are several.
    """
    if not reference:
        raise RequestError("an empty session reference was given")
    if exact := catalog.named(root, reference):
        return nearest(root, exact, here)
    if reference.startswith(ids.CHILD_PREFIX):
        children = [path for path in catalog.transcripts(root, children=True) if _begins(path, reference)]
        if len(children) == 1:
            return children[0]
    begins = [path for path in catalog.transcripts(root) if _begins(path, reference)]
    if len({path.name for path in begins}) == 1:
        return nearest(root, begins, here)
    rows = [*overview.rows("", "all"), *(overview.rows(here, "project") if here is not None else ())]
    titled = [row for row in rows if row.given_title == reference] or [row for row in rows if row.title == reference]
    named = list(dict.fromkeys(row.id for row in titled))
    if len(named) == 1:
        twins = list(dict.fromkeys(row.path for row in titled))
        return nearest(root, [*twins, *_twins(root, twins, reference)], here)
    if candidates := named or [catalog.id_of(path) for path in begins]:
        raise AmbiguousError("session", reference, candidates)
    raise NotFoundError("session", reference, hint="'sessions list --all' shows them")


def _twins(root: Path, found: list[Path], title: str) -> list[Path]:
    """Return further transcripts of the id of some, in other projects, that have the title too."""
    others = catalog.named(root, catalog.id_of(found[0]))
    return [other for other in others if other not in found and _is_titled(other, title)]


def _is_titled(path: Path, title: str) -> bool:
    try:
        row = listing.row_of(path)
    except OSError:
        return False
    return title in {row.given_title, row.title}


def _begins(path: Path, reference: str) -> bool:
    return path.name.startswith(reference) and catalog.id_of(path).startswith(reference)
