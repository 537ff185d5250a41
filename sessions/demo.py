"""A small project, a session that made it, and a rewind of it: everything through the public API.

What is printed is the same on every run but for the directory: no id, no time.
"""

from __future__ import annotations

import hashlib
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sessions.picker import verdicts, words
from sessions.picker.text import Line, visible_path
from sessions.store import SessionStore
from sessions.transcript.messages import assistant_message

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from sessions.session import Session

TITLE = "A greeting in four steps"
TARGET = 2
PROMPTS = 4

_LOGO = bytes((137, 80, 78, 71, 13, 10, 26, 10)) + bytes(range(256))
_File = tuple[bytes, int]


@dataclass(frozen=True, slots=True)
class Demo:
    """Where the demonstration lies.

    Attributes:
        root: Where its sessions are kept.
        project: The directory its agent works in.
        session_id: Its session.
    """

    root: Path
    project: Path
    session_id: str


def build(directory: Path) -> Demo:
    """Make ``project`` and ``store`` in ``directory``, which exists and is empty, and play a session of four prompts.

    Raises:
        OSError: Something cannot be written there; what was written stays.
    """
    root, project = directory / "store", directory / "project"
    project.mkdir()
    with SessionStore(root).create(project) as session:
        session.set_title(TITLE)
        _play(session, project)
        return Demo(root, project, session.id)


def tell(demo: Demo) -> Iterator[Line]:
    """Rewind the demonstration to its second prompt and take it back; yield what is to be told, step by step."""
    with SessionStore(demo.root).open(demo.session_id) as session:
        yield from _head(f"The session {TITLE!r} has these prompts")
        for each in session.checkpoints():
            lines = words.changed_lines(each.insertions, each.deletions)
            yield (
                ("", f"  {each.index}  {each.prompt:<50}"),
                ("dim", f"{words.count(len(each.files), 'file'):<9}"),
                *lines,
            )
            if each.compacted:
                yield (("mark", "     ⊟ compacted here: the model sees a summary of the above"),)
        before = files_of(demo.project)
        yield from _head("The files as the agent left them")
        yield from _listing(before)
        plan = session.plan_rewind(TARGET)
        yield from _head(f"The plan to go back to before prompt {TARGET}; nothing is changed yet")
        yield from _indented(verdicts.plan_lines(plan))
        report = session.rewind(plan)
        yield from _head("Done")
        yield from _indented(verdicts.report_lines(report))
        yield (("", f"  the prompt, for the input box: {report.prompt}"),)
        yield from _head("The files after the rewind")
        yield from _listing(files_of(demo.project))
        report = session.undo_rewind()
        yield from _head("And taken back")
        yield from _indented(verdicts.report_lines(report, "undone"))
        after = files_of(demo.project)
        yield from _head("The files after the undo")
        yield from _listing(after)
        same = "byte and mode the same as before the rewind" if after == before else "NOT the same as before the rewind"
        yield (("strong" if after == before else "warn", f"  {same}"),)


def rehearse(demo: Demo) -> dict[str, object]:
    """Do what :func:`tell` tells; return where it lies, the plan and both reports in their JSON shapes."""
    with SessionStore(demo.root).open(demo.session_id) as session:
        plan = session.plan_rewind(TARGET)
        report, undo = session.rewind(plan), session.undo_rewind()
    said = {"plan": plan.to_json(), "report": report.to_json(), "undo": undo.to_json()}
    return {"session": demo.session_id, "root": str(demo.root), "project": str(demo.project), **said}


def places(demo: Demo) -> Iterator[Line]:
    """Yield where the files of the demonstration lie."""
    yield (("", f"The project lies in {visible_path(str(demo.project))}"),)
    yield (("", f"its session in     {visible_path(str(demo.root))}"),)


def files_of(project: Path) -> Mapping[str, _File]:
    """Return content and mode of every file below ``project``, by relative path, sorted."""
    found = (path for path in sorted(project.rglob("*")) if path.is_file())
    return {str(path.relative_to(project)): (path.read_bytes(), path.stat().st_mode) for path in found}


def _play(session: Session, project: Path) -> None:
    greet, readme, run, logo = (project / name for name in ("greet.py", "README.md", "run.sh", "assets/logo.png"))
    with session.begin_turn("Write a program that greets, with a readme") as turn:
        with turn.edit("greet.py", "README.md"):
            _write(greet, b'print("hello")\n')
            _write(readme, b"# Greeting\n\nRun `python greet.py`.\n")
        session.append(assistant_message("It greets. Run it with `python greet.py`."))
    with session.begin_turn("Add a logo, and a script that runs it") as turn:
        with turn.edit("assets/logo.png"):
            logo.parent.mkdir()
            _write(logo, _LOGO)
        with turn.edit("run.sh"):
            _write(run, b'#!/bin/sh\nexec python3 "$(dirname "$0")/greet.py" "$@"\n', 0o755)
        session.append(assistant_message("There is a logo, and `./run.sh` starts it."))
    with session.begin_turn("Greet people by name") as turn:
        with turn.edit("greet.py"):
            _write(greet, b'import sys\n\nfor name in sys.argv[1:] or ["you"]:\n    print(f"hello, {name}")\n')
        session.append(assistant_message("It now greets everybody on its command line."))
    session.compact(summary="A program greets people by name; it has a readme, a logo and a script that runs it.")
    with session.begin_turn("The readme is wrong: delete it. Say goodbye, too") as turn:
        with turn.edit("README.md", "greet.py"):
            readme.unlink()
            _write(greet, greet.read_bytes() + b'    print(f"goodbye, {name}")\n')
        turn.gap("shell", ())
        session.append(assistant_message("The readme is gone, and it says goodbye. I ran it once to see."))


def _write(path: Path, content: bytes, mode: int = 0o644) -> None:
    path.write_bytes(content)
    path.chmod(mode)


def _head(text: str) -> Iterator[Line]:
    yield ()
    yield (("title", text),)


def _indented(lines: list[Line]) -> Iterator[Line]:
    return ((("", "  "), *line) for line in lines)


def _listing(files: Mapping[str, _File]) -> Iterator[Line]:
    for path, (content, mode) in files.items():
        digest = hashlib.sha256(content).hexdigest()[:12]
        yield (("dim", f"  {stat.filemode(mode)}  {len(content):>4} bytes  {digest}  "), ("", visible_path(path)))
