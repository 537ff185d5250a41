"""``sessions show --follow``: what comes, what goes back, what ends it; with a real process that follows."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sessions import Session, SessionStore, assistant_message
from sessions.transcript.growing import Came, CameBack, Growing, WentBack

if TYPE_CHECKING:
    from pseudo_terminal import Terminal

Cli = Callable[..., Any]

HERE = Path(__file__).parents[2]
DEADLINE_S = 60


class Following:
    """A process that follows, and the lines it printed so far."""

    def __init__(self, *words: str, **more: Any) -> None:
        self.child = subprocess.Popen(
            [sys.executable, "-m", "sessions", "show", *words],
            env={**os.environ, "PYTHONPATH": str(HERE), "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            start_new_session=True,
            **more,
        )

    def until(self, said: str) -> list[str]:
        """Return the lines up to the one with this in it."""
        assert self.child.stdout is not None
        lines = []
        for line in self.child.stdout:
            lines.append(line.removesuffix("\n"))
            if said in line:
                return lines
        raise AssertionError((lines, self.child.stderr and self.child.stderr.read()))

    def end(self, number: int | None = signal.SIGINT) -> tuple[int, str, str]:
        if number is not None:
            self.child.send_signal(number)
        out, err = self.child.communicate(timeout=DEADLINE_S)
        return self.child.returncode, out, err


@pytest.fixture
def start() -> Iterator[Callable[..., Following]]:
    started: list[Following] = []

    def begin(*words: str) -> Following:
        started.append(Following(*words, "--follow"))
        return started[-1]

    yield begin
    for one in started:
        if one.child.poll() is None:
            one.child.kill()
        one.child.communicate()


@pytest.fixture
def session(kept: Any) -> Iterator[Session]:
    with SessionStore(kept.root).open(kept.id) as opened:
        yield opened


def turn(session: Session, prompt: str, answer: str) -> str:
    with session.begin_turn(prompt) as begun:
        session.append(assistant_message(answer))
    return begun.message_id


def said(lines: list[str]) -> list[str]:
    """What was said, without heads and empty lines."""
    return [line.strip() for line in lines if line.strip() and " · " not in line]


def test_the_end_of_the_conversation_is_printed_and_then_what_comes(
    start: Callable[..., Following], session: Session
) -> None:
    one = start(session.id, "--last", "2")
    assert said(one.until("Deleted.")) == ["Delete the old file", "Deleted."]
    turn(session, "Go on", "Gone on.")
    assert said(one.until("Gone on.")) == ["Go on", "Gone on."]
    session.append(assistant_message("And more."))
    assert said(one.until("And more.")) == ["And more."]
    code, out, err = one.end()
    assert (code, out.strip(), err) == (130, "", "sessions: interrupted\n")


def test_ten_messages_are_printed_by_default_and_none_with_last_0(
    start: Callable[..., Following], session: Session
) -> None:
    for number in range(8):
        turn(session, f"prompt {number}", f"answer {number}")
    one, none = start(session.id), start(session.id, "--last", "0", "--history")
    assert said(one.until("answer 7")) == [f"{who} {n}" for n in range(3, 8) for who in ("prompt", "answer")]
    heard = threading.Event()

    def repeat() -> None:  # nothing tells when it has begun
        while not heard.wait(0.2):
            session.append(assistant_message("a new one"))

    repeating = threading.Thread(target=repeat)
    repeating.start()
    try:
        assert set(said(none.until("a new one"))) == {"a new one"}
    finally:
        heard.set()
        repeating.join()


def test_what_a_compaction_says_again_is_not_repeated_and_its_summary_is_printed(
    start: Callable[..., Following], session: Session
) -> None:
    one = start(session.id, "--last", "1")
    one.until("Deleted.")
    session.compact(summary="All of it.", keep_rounds=2)
    session.append(assistant_message("Afterwards."))
    assert said(one.until("Afterwards.")) == ["⊟ summary of what came before", "All of it.", "Afterwards."]


@pytest.mark.parametrize("how", ["rewrite", "hide"])
def test_a_rewind_is_one_line_and_so_is_its_undo_and_nothing_is_repeated(
    start: Callable[..., Following], session: Session, how: Any
) -> None:
    turn(session, "Third", "Third done.")
    one = start(session.id, "--last", "1")
    one.until("Third done.")
    report = session.rewind(3, history=how, scope="conversation")
    assert report.session is session
    assert said(one.until("went back")) == [
        "↩ the conversation went back to before prompt 3: Delete the old file (4 messages gone)"
    ]
    session.undo_rewind()
    assert said(one.until("taken back")) == ["↪ the rewind was taken back: 4 messages are there again"]
    session.rewind(4, history=how, scope="conversation")
    turn(session, "Third anew", "Done anew.")
    assert said(one.until("Done anew.")) == [
        "↩ the conversation went back to before prompt 4: Third (2 messages gone)",
        "Third anew",
        "Done anew.",
    ]


def test_a_rewind_to_before_what_was_printed_prints_nothing_that_is_left(
    start: Callable[..., Following], session: Session
) -> None:
    one = start(session.id, "--last", "1")
    one.until("Deleted.")
    session.rewind(2, scope="conversation")
    session.append(assistant_message("New."))
    lines = said(one.until("New."))
    assert len(lines) == 2
    assert lines[0].startswith(r"↩ the conversation went back to before prompt 2: Add \x1b[31mtwo lines")


def test_a_rewind_to_a_mark_says_which_turn(start: Callable[..., Following], session: Session) -> None:
    with session.begin_turn("Marked") as marked:
        session.append(assistant_message("Before the mark."))
        mark = marked.mark("here")
        session.append(assistant_message("Behind the mark."))
    one = start(session.id, "--last", "1")
    one.until("Behind the mark.")
    session.rewind(f"4:{mark.name}" if mark is not None else "4:here", scope="conversation")
    assert said(one.until("went back")) == ["↩ the conversation went back to a place inside turn 4 (1 message gone)"]


def test_a_line_that_is_being_written_is_waited_for(start: Callable[..., Following], kept: Any) -> None:
    line = json.dumps({"role": "user", "id": "m1", "blocks": [{"type": "text", "content": "日本 in parts"}]},
                      ensure_ascii=False).encode()  # fmt: skip
    with kept.path.open("ab", buffering=0) as file:
        file.write(line[:20])
        one = start(kept.id, "--last", "1")
        one.until("Deleted.")
        for at in range(20, len(line), 20):
            file.write(line[at : at + 20])
            time.sleep(0.12)
        file.write(b"\n{broken\n")
        file.write(line.replace(b"m1", b"m2").replace(b"in parts", b"at once") + b"\n")
    assert said(one.until("at once")) == ["日本 in parts", "日本 at once"]
    assert one.end()[2] == "sessions: interrupted\n", "no warning of a torn tail"


def test_in_json_it_is_a_line_a_message_and_reads_as_the_transcript_does(
    start: Callable[..., Following], session: Session, tmp_path: Path
) -> None:
    one = start(session.id, "--json", "--history", "--last", "1000")
    turn(session, "Third", "Third done.")
    lines = one.until("Third done.")
    session.rewind(3, scope="conversation")
    lines += one.until("rollback")
    assert json.loads(lines[-1]) == {
        "type": "rollback", "throughTurnId": 3, "reason": "rewind",
        "messageId": next(json.loads(line)["id"] for line in lines if "Delete the old file" in line),
    }  # fmt: skip
    session.undo_rewind()
    lines += one.until("Third done.")
    session.append(assistant_message("Last."))
    lines += one.until("Last.")
    copy = tmp_path / "copy.jsonl"
    copy.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    from sessions.transcript import reader

    said_once = {entry.id for entry in reader.read_history(copy)}
    assert said_once == {message.id for message in session.history()}
    assert one.end()[0] == 130


def test_the_deletion_of_the_session_ends_it(start: Callable[..., Following], kept: Any) -> None:
    one = start(kept.id)
    one.until("Deleted.")
    SessionStore(kept.root).delete(kept.id)
    code, _, err = one.end(None)
    assert (code, err) == (
        3,
        f"sessions: no session matches {kept.id!r}; it was deleted, or went with what started it\n",
    )


def test_a_reader_that_goes_ends_it_also_while_nothing_is_printed(
    start: Callable[..., Following], session: Session
) -> None:
    one = start(session.id)
    one.until("Deleted.")
    assert one.child.stdout is not None
    one.child.stdout.close()
    assert one.child.wait(timeout=DEADLINE_S) == 0
    assert one.child.stderr is not None
    assert one.child.stderr.read() == ""
    one.child.stdout = None


def test_it_changes_nothing_and_takes_no_lock(start: Callable[..., Following], kept: Any) -> None:
    def everything() -> dict[str, tuple[int, int]]:
        return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in kept.root.rglob("*")}

    before = everything()
    one = start(kept.id)
    one.until("Deleted.")
    one.end()
    assert everything() == before


def test_on_a_terminal_it_goes_on_until_ctrl_c(in_terminal: Callable[..., Terminal], session: Session) -> None:
    user = in_terminal(["-m", "sessions", "show", session.id, "--follow", "--last", "1"])
    user.shows("Deleted.")
    turn(session, "Go on", "Gone on.")
    user.shows("Go on", "Gone on.")
    user.press("\x03")
    user.end()
    assert user.exit_code == 130


def test_show_takes_last_without_following_too(cli: Cli, kept: Any) -> None:
    assert said(cli("show", kept.id, "--last", "1").out.split("\n")) == ["Deleted."]
    assert cli("show", kept.id, "--last", "0").out == ""
    assert len(cli("show", kept.id, "--last", "3", "--history", "--json").json["messages"]) == 3
    assert cli("show", kept.id, "--last", "1000").out == cli("show", kept.id).out
    assert cli("show", kept.id, "--last", "-1").exit_code == 2


# -- the looks -----------------------------------------------------------------------------------------------------


def test_a_look_while_nothing_changes_is_one_stat(kept: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    growing = Growing(kept.path)
    assert len(list(growing.begin(2, history=False))) == 2
    with monkeypatch.context() as patched:
        patched.setattr(os, "open", None)
        assert list(growing.look()) == []
    os.utime(kept.path)
    assert list(growing.look()) == []


def test_looks_tell_of_every_change_whatever_the_inode(kept: Any) -> None:
    growing = Growing(kept.path)
    list(growing.begin(0, history=True))
    whole = kept.path.read_bytes()
    start = whole.index(b"Delete the old file")
    cut = whole.rindex(b"\n", 0, start) + 1
    kept.path.write_bytes(whole[:cut])
    [gone] = growing.look()
    assert isinstance(gone, WentBack)
    assert (gone.messages, gone.turn, gone.prompt) == (2, 3, "Delete the old file")
    kept.path.write_bytes(whole)
    back, *again = growing.look()
    assert back == CameBack(2)
    assert [event.again for event in again if isinstance(event, Came)] == [True, True]
    longer = whole[:cut] + whole[cut:].replace(b"Delete the old file", b"Delete the older file and more")
    kept.path.write_bytes(longer)
    gone, new = growing.look()
    assert isinstance(gone, WentBack)
    assert isinstance(new, Came)
    assert (gone.messages, b"older file and more" in new.entry.raw) == (1, True)
    assert list(growing.look()) == []


def test_a_message_that_is_finished_later_comes_again(kept: Any) -> None:
    growing = Growing(kept.path)
    list(growing.begin(0, history=True))
    for said_so_far in ("Hel", "Hello", "Hello"):
        with kept.path.open("a") as file:
            file.write(f'{{"role":"assistant","id":"m","blocks":[{{"type":"text","content":"{said_so_far}"}}]}}\n')
    assert [event.entry.blocks[0]["content"] for event in growing.look() if isinstance(event, Came)] == ["Hel", "Hello"]
