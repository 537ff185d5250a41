"""``sessions list``: the table, the search in rows and prompts, the search in everything."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyte
import pytest

from sessions import SessionStore, assistant_message
from sessions.cli import render
from sessions.listing import Facts, SessionInfo
from sessions.picker.text import plain, width

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cli.conftest import Done

    Cli = Callable[..., Done]

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
TITLES = (
    "Mend the parser, it refuses prices with a half in them",
    "请修复价格解析器，它拒绝带有半价的价格",
    "👩‍💻 ❤️ 👍🏽 1️⃣ emoji of all kinds",
    "Cafe\u0301 a\u0308o\u0308u\u0308 combined, हिन्दी too",
    "\x1b[31mred\x07 \u202ebackwards \ud83d",
    "",
    "short",
)


def row(
    name: str = "7d0c9a52-3f1e-4b6a-9c55-2f8e0b1d4a60",
    title: str | None = "A title",
    *,
    workdir: str | None = "/home/user/shop",
    branch: str | None = None,
    tokens: int | None = 12_345,
    age: timedelta = timedelta(hours=2),
    fork_of: str | None = None,
    parent: str | None = None,
    damaged: bool = False,
) -> SessionInfo:
    written = int((NOW - age).timestamp() * 1e9)
    facts = Facts(
        mtime_ns=written, name=f"{name}.jsonl", directory="/store/projects/home-user-shop", size=1, inode=1,
        ctime_ns=written, title=title or None, first_prompt=None, first_summary=None, created=None, workdir=workdir, git_branch=branch, total_tokens=tokens,
        forked_from=fork_of, parent=parent, root=parent, damaged=damaged,
    )  # fmt: skip
    return SessionInfo(facts)


def table(*rows: SessionInfo, columns: int = 100, **more: Any) -> list[str]:
    return [plain(line).rstrip() for line in render.session_table(rows, NOW, columns, **more)]


def many() -> list[SessionInfo]:
    return [row(f"{number:08x}-3f1e", title, branch=f"topic/{'long-' * number}") for number, title in enumerate(TITLES)]


# -- the table ---------------------------------------------------------------------------------------------------------


def test_a_line_says_id_time_branch_tokens_and_title():
    assert table(row(branch="main")) == ["7d0c9a52  2h ago  main  12.3k  A title"]


def test_a_session_without_anything_to_name_it_has_a_placeholder():
    assert table(row(title=None, tokens=None)) == ["7d0c9a52  2h ago  -  (untitled)"]


def test_marks_stand_in_front_of_the_title():
    assert table(row(damaged=True)) == ["7d0c9a52  2h ago  12.3k  damaged A title"]
    assert table(row(fork_of="1234567890")) == ["7d0c9a52  2h ago  12.3k  A title  fork of 12345678"]
    assert table(row(fork_of="1234567890"), columns=45) == ["7d0c9a52  2h ago  12.3k  fork A title"]


def test_a_path_is_shown_where_it_is_another_one_than_here():
    rows = (row("a" * 8), row("b" * 8, workdir="/home/user/other"), row("c" * 8, workdir=None))
    assert table(*rows, here="/home/user/shop") == [
        "aaaaaaaa  2h ago  12.3k  A title",
        "bbbbbbbb  2h ago  12.3k  A title",
        "  /home/user/other",
        "cccccccc  2h ago  12.3k  A title",
        "  home-user-shop (no directory)",
    ]
    assert len(table(*rows)) == 3


def test_a_path_is_whole_unless_a_width_is_given_for_it():
    far = row(workdir="/home/user/" + "deep/" * 30)
    assert table(far, here="/", columns=40)[1] == f"  {far.workdir}"
    assert table(far, here="/", columns=40, path_columns=40)[1].startswith("  …deep/") is False
    assert width(table(far, here="/", columns=40, path_columns=40)[1]) == 40


def test_children_are_indented_below_their_parent_with_enough_of_their_id_to_name_them():
    rows = (
        row("a" * 8, branch="main"),
        row("subagent-11112222-3333", "Child", parent="a" * 8, branch="main"),
        row("subagent-44445555-6666", "Grandchild", parent="subagent-11112222-3333", workdir="/elsewhere"),
        row("b" * 8),
    )
    assert table(*rows, here="/home/user/shop") == [
        "aaaaaaaa  2h ago  main  12.3k  A title",
        "  subagent-11112222  2h ago  main  12.3k  Child",
        "    subagent-44445555  2h ago  12.3k  Grandchild",
        "      /elsewhere",
        "bbbbbbbb  2h ago        12.3k  A title",
    ]


def test_in_a_narrow_terminal_columns_go_branch_first_then_tokens_then_time():
    one = row(title="A title that is long enough", branch="topic/money")
    assert table(one, columns=60) == ["7d0c9a52  2h ago  topic/money  12.3k  A title that is long …"]
    assert table(one, columns=50) == ["7d0c9a52  2h ago  12.3k  A title that is long eno…"]
    assert table(one, columns=40) == ["7d0c9a52  2h ago  A title that is long …"]
    assert table(one, columns=30) == ["7d0c9a52  A title that is lon…"]
    assert table(one, columns=5) == ["7d0c9"]


def test_a_long_branch_is_shortened():
    assert "  topic/" + "x" * 13 + "…  " in table(row(branch="topic/" + "x" * 100))[0]


@pytest.mark.parametrize("columns", [8, 20, 28, 40, 60, 80, 120])
def test_no_line_is_wider_than_the_terminal_and_the_titles_begin_in_one_column(columns):
    lines = table(*many(), columns=columns)
    assert all(width(line) <= columns for line in lines)
    screen = pyte.Screen(columns, 2 * len(lines))
    pyte.Stream(screen).feed("\r\n".join(lines))
    shown = [line.rstrip() for line in screen.display[: len(lines)]]
    assert [line[:8] for line in shown] == [f"{number:08x}" for number in range(len(lines))]
    assert not any(line.strip() for line in screen.display[len(lines) :])
    if columns >= 60:
        at = shown[0].index("Mend")
        assert [line[at : at + 4] for line in shown][5:] == ["(unt", "shor"]
        assert [line[at - 2 : at] for line in shown] == ["  "] * len(shown)


def test_flags_are_letters_whose_width_every_terminal_knows():
    assert table(row(title="A 🇩🇪 flag"), columns=60)[0].endswith("A DE flag")


def test_a_terminal_of_forty_columns_shows_a_line_a_session(in_terminal, kept, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    with SessionStore(kept.root).open(kept.id) as session:
        session.set_title("请修复价格解析器 👩‍💻 with a long tail behind it")
        session.fork().close()
    monkeypatch.setenv("COLUMNS", "80")  # of another terminal
    terminal = in_terminal(["-m", "sessions", "list", "--all"], columns=40, lines=10)
    terminal.stream.feed(terminal.end())
    lines = [line.rstrip() for line in terminal.screen.display if line.strip()]
    assert len(lines) == 2
    assert "\x1b[" not in terminal.raw
    for line in lines:
        assert line.endswith("…")
        assert kept.id[:8] in lines[1]


# -- which sessions ----------------------------------------------------------------------------------------------------


def test_search_finds_words_in_prompts_in_spite_of_a_slip_and_the_best_comes_first(cli: Cli, kept: Any):
    with SessionStore(kept.root).create(kept.project) as other:
        with other.begin_turn("Something else"):
            pass
        other.set_title("What to delete")
    assert cli("list", "--search", "old file").out.split()[0] == kept.id[:8]
    assert [line.split()[0] for line in cli("list", "--search", "delete").out.splitlines()] == [
        other.id[:8],
        kept.id[:8],
    ]
    assert cli("list", "--search", "delte notes").out.split()[0] == kept.id[:8]
    nothing = cli("list", "--search", "banana")
    assert (nothing.exit_code, nothing.out) == (0, "")
    assert (
        nothing.err
        == "no session mentions that; --worktrees shows those of this repository, --all those of other directories\n"
    )


def test_children_are_listed_below_their_parent_only_where_asked_for(cli: Cli, kept: Any):
    with (
        SessionStore(kept.root).open(kept.id) as session,
        session.begin_turn("Ask a helper") as turn,
        session.subagent(spawned_by=turn.message_id) as child,
    ):
        child.append(assistant_message("needle of the child"))
    assert len(cli("list").out.splitlines()) == 1
    parent, below = cli("list", "--children").out.splitlines()
    assert parent.startswith(kept.id[:8])
    assert below.startswith(f"  {child.id[:17]}  ")
    assert [each["id"] for each in cli("list", "--children", "--json").json] == [kept.id, child.id]
    assert cli("list", "--grep", "needle").out == ""
    assert "needle of the child" in cli("list", "--grep", "needle", "--children").out


def test_worktrees_are_those_of_the_repository_and_all_wins(cli: Cli, kept: Any, tmp_path: Path, monkeypatch: Any):
    tree, elsewhere = tmp_path / "tree", tmp_path / "elsewhere"
    elsewhere.mkdir()
    for command in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "m"], ["worktree", "add", "-q", str(tree)]):
        subprocess.run(["git", "-c", "user.name=A", "-c", "user.email=a@b", *command], cwd=kept.project, check=True)
    for directory in (tree, elsewhere):
        with SessionStore(kept.root).create(directory) as session, session.begin_turn(directory.name):
            pass
    monkeypatch.chdir(tree)
    assert [line.split()[-1] for line in cli("list").out.splitlines()] == ["tree"]
    assert str(kept.project) in (shown := cli("list", "--worktrees").out)
    assert "elsewhere" not in shown
    assert "elsewhere" in cli("list", "--worktrees", "--all").out


# -- the search in everything ------------------------------------------------------------------------------------------


def test_grep_prints_the_session_and_each_line(cli: Cli, kept: Any):
    done = cli("list", "--grep", "begun")
    assert (done.exit_code, done.err) == (0, "")
    assert done.out.splitlines() == [
        f"{kept.id[:8]}  now  2.4k  A kept session",
        "       1  assistant   Begun.",
        "       2  summary     Notes were begun.",
    ]
    assert cli("list", "--grep", "Begun").out.splitlines()[1:] == ["       1  assistant   Begun."]


def test_grep_as_json_is_an_array_of_rows_with_their_hits(cli: Cli, kept: Any):
    with SessionStore(kept.root).create(kept.project) as other, other.begin_turn("deleted \ud83d"):
        pass
    listed = cli("list", "--json").json
    found = cli("list", "--grep", "delete", "--json").json
    assert [{key: value for key, value in each.items() if key != "hits"} for each in found] == listed
    assert found[0]["hits"] == [
        {
            "message_id": other.history()[0].id,
            "role": "user",
            "turn": 1,
            "hidden": False,
            "part": "text",
            "line": "deleted \ufffd",
            "spans": [[0, 6]],
        }
    ]
    assert [(hit["turn"], hit["line"]) for hit in found[1]["hits"]] == [(3, "Delete the old file"), (3, "Deleted.")]
    assert cli("list", "--grep", "banana", "--json").out == "[]\n"


def test_grep_with_a_limit_stops_at_so_many_sessions_with_hits(cli: Cli, kept: Any):
    for word in ("other", "needle", "needle"):
        with SessionStore(kept.root).create(kept.project) as session, session.begin_turn(f"{word} here"):
            pass
    assert cli("list", "--grep", "needle", "--limit", "1").out.splitlines()[0].startswith(session.id[:8])
    assert len(cli("list", "--grep", "needle", "--limit", "1").out.splitlines()) == 2
    assert len(cli("list", "--grep", "here", "--search", "other", "--limit", "3").out.splitlines()) == 2


def test_grep_without_a_hit_says_so_and_an_empty_text_is_refused(cli: Cli, kept: Any):
    nothing = cli("list", "--grep", "banana")
    assert (nothing.exit_code, nothing.out, nothing.err.split(";")[0]) == (0, "", "no session mentions that")
    assert cli("list", "--grep", "").exit_code == 2


def test_a_hit_on_a_narrow_screen_shows_what_was_found_and_fits():
    from sessions.grepping import Hit

    line = "修" * 100 + "needle" + "x" * 100
    hit = Hit("msg-1", "assistant", 12, False, "text", line, ((100, 106),))
    for columns in (20, 40, 80, 200):
        shown = render.hit_line(hit, columns)
        assert width(plain(shown)) <= columns
        assert ("warn", "needle") in shown
    assert line in plain(render.hit_line(hit, None))
    tabbed = Hit("msg-1", "user", None, True, "text", "\tif  \x1b[0m needle\t&& needle", ((10, 16), (20, 26)))
    assert plain(render.hit_line(tabbed, None)) == "  hidden  user        if \\x1b[0m needle && needle"


def test_a_long_search_says_how_far_it_is_and_ctrl_c_leaves_what_was_printed(in_terminal, kept):
    quiet = kept.path.parent / "00000000-aaaa.jsonl"
    header = kept.path.read_bytes().split(b"\n", 1)[0] + b"\n"
    words = json.dumps({"timestamp": "2026-03-01T09:00:00.000Z", "id": "m", "role": "user", "blocks": [
        {"type": "text", "content": "nothing of it " * 20_000}]}).encode() + b"\n"  # fmt: skip
    quiet.write_bytes(header + words * 16)
    os.utime(quiet, (1, 1))
    for number in range(1, 600):
        os.link(quiet, quiet.with_name(f"{number:08x}-aaaa.jsonl"))
    terminal = in_terminal(["-m", "sessions", "list", "--grep", "Begun"], columns=60, lines=10)
    terminal.shows("assistant   Begun.", "searched ", " of 601 sessions")
    terminal.press("\x03")
    raw = terminal.end()
    terminal.screen.reset()
    terminal.stream.feed(raw)
    shown = [line.rstrip() for line in terminal.screen.display if line.strip()]
    assert terminal.exit_code == 130
    assert shown[1:] == ["       1  assistant   Begun.", "sessions: interrupted"]


class _Screen(io.StringIO):
    """A terminal for stderr."""

    def isatty(self) -> bool:
        return True


def test_how_far_it_is_does_not_stand_in_the_way_of_a_hit(kept, monkeypatch):
    from sessions.cli import hits

    store = SessionStore(kept.root)
    rows = store.list(scope="all")
    for term, expected in (("xterm", "\r\x1b[Ksearched 0 of 1 sessions\r\x1b[K"), ("dumb", "")):
        shown = _Screen()
        monkeypatch.setattr(sys, "stderr", shown)
        monkeypatch.setattr(hits, "_PATIENCE_S", 0)
        monkeypatch.setenv("TERM", term)
        found = hits._search(store, rows, "Begun", None)
        next(found)
        assert shown.getvalue() == expected
        assert list(found) == []


def test_a_list_and_a_search_import_nothing_they_do_not_need(kept):
    code = (
        "import sys; from sessions.cli.app import run; run(sys.argv[1:])\n"
        "print([name for name in ('pydantic', 'prompt_toolkit', 'rapidfuzz', 'difflib', 'subprocess', 'html')"
        " if name in sys.modules], file=sys.stderr)"
    )
    for arguments in ([], ["--search", "kept"], ["--grep", "Begun"], ["--all", "--json"]):
        done = subprocess.run([sys.executable, "-c", code, "list", *arguments], capture_output=True, check=True)
        assert kept.id[:8].encode() in done.stdout
        assert done.stderr == b"[]\n", arguments
