"""Where a session lies, and how a path is shown. Names only; nothing here touches the disk but ``realpath``."""

from __future__ import annotations

import os
import re
from pathlib import Path

TIMELINE = "timeline.jsonl"
"""What a session's code timeline is called in its sidecar; no transcript is ever called so."""

MAX_UNITS = 200
MAX_NAME_BYTES = 255
_KEPT = 191  # units or bytes in front of "-" and eight digits of the hash

# JavaScript's \s: Python's lacks U+FEFF and has U+0085 and U+001C to U+001F.
_SPACE = re.compile("[\t\n\v\f\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff]+")
_DRIVE = re.compile("[A-Za-z]:")


def default_root() -> Path:
    """Return the directory all sessions live under: ``$SESSIONS_HOME``, else the platform's user data directory."""
    if given := os.environ.get("SESSIONS_HOME"):
        return absolute(Path(given).expanduser())
    from platformdirs import user_data_path  # noqa: PLC0415 - `import sessions` does not pay for it

    return user_data_path("sessions", appauthor=False)


def absolute(path: str | os.PathLike[str]) -> Path:
    """Return ``path`` from the root on, without ``..`` where that leads to the same place."""
    plain = os.path.abspath(path)
    same = os.path.realpath(plain) == os.path.realpath(path) if ".." in Path(path).parts else True
    return Path(plain) if same else Path(path).absolute()


def encode_workdir(realpath: str) -> str:
    """Return the directory name that stands for a project; empty for ``/``.

    At most 200 UTF-16 units and 255 bytes; longer ones end in ``-`` and eight digits of the path's SHA-256. Different
    paths can have the same name, so the name proves nothing. Bytes that are not UTF-8 (surrogate escapes) pass through.
    """
    name = encoded(realpath)
    units = name.encode("utf-16-le", "surrogatepass")
    short = name
    if len(units) > 2 * MAX_UNITS:
        short = f"{_first_units(units)}-{_digest(realpath)}"
    if len(_as_bytes(short)) > MAX_NAME_BYTES:
        short = f"{_first_bytes(name)}-{_digest(realpath)}"
    return short


def encoded(realpath: str) -> str:
    """Return ``encode_workdir`` of a path without its limit: the name of a directory below it begins so."""
    name = _DRIVE.sub("", realpath, count=1) if _DRIVE.match(realpath) else realpath
    name = name.removeprefix("/").replace("/", "-").replace("\\", "-")
    return _SPACE.sub("_", name).replace("\0", "_")


def project_directory(root: Path, workdir: str | os.PathLike[str]) -> Path:
    """Return where the sessions of ``workdir`` lie; ``projects/`` itself for ``/``."""
    return root / "projects" / encode_workdir(os.path.realpath(workdir))


def current() -> str | None:
    """Return the real path of the current directory; None where it was removed under us."""
    try:
        return os.path.realpath(os.curdir)
    except FileNotFoundError:
        return None


def resolved(workdir: str) -> str | None:
    """Return the real path of a directory a file names; None where no directory of this system can be called so."""
    try:
        os.fsencode(workdir)
        return os.path.realpath(workdir) if workdir else None
    except ValueError:  # a NUL, a lone surrogate
        return None


def transcript_path(root: Path, workdir: str | os.PathLike[str], session_id: str) -> Path:
    """Return the transcript of a session; the caller has checked that the id is safe as a name."""
    return project_directory(root, workdir) / f"{session_id}.jsonl"


def beside(transcript: Path, session_id: str) -> Path:
    """Return the transcript of another session beside one: of its root, of a subagent, of a fork."""
    return transcript.with_name(f"{session_id}.jsonl")


def sidecar(transcript: Path) -> Path:
    """Return the directory beside a transcript that holds what belongs to it: ``<session id>.ckpt``."""
    return transcript.with_name(transcript.name.removesuffix(".jsonl") + ".ckpt")


def shown(path: str, workdir: str) -> str:
    """Return ``path`` as people read it: relative inside ``workdir`` (itself: ``.``), else as it is."""
    if path == workdir:
        return "."
    inside = workdir.rstrip("/") + "/"
    return path.removeprefix(inside)


def _first_units(units: bytes) -> str:
    kept = units[: 2 * _KEPT].decode("utf-16-le", "surrogatepass")
    # A first half alone at the end is a pair that was cut; paths themselves never hold one.
    return kept[:-1] + "\ufffd" if "\ud800" <= kept[-1] <= "\udbff" else kept


def _first_bytes(name: str) -> str:
    size = 0
    for place, character in enumerate(name):
        size += len(_as_bytes(character))
        if size > _KEPT:
            return name[:place]
    return name


def _digest(realpath: str) -> str:
    import hashlib  # noqa: PLC0415 - for long names only

    return hashlib.sha256(_as_bytes(realpath)).hexdigest()[:8]


def _as_bytes(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
