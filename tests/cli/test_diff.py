"""``sessions diff``: a patch in a pipe, colours and a pager on a terminal, a table, and JSON of a shape that stays."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pexpect
import pytest

from sessions import FileDiff, SessionStore
from sessions.cli import patches
from sessions.cli.app import run
from sessions.picker.text import plain
from sessions.rewind.filediffs import FileDiffs
from sessions.rewind.plan import Gap

Cli = Callable[..., Any]
GOLDEN = Path(__file__).with_name("diff.json")


def agent_turn(kept: Any, prompt: str, edits: dict[str, bytes | None], *, mode: int = 0o644) -> None:
    with SessionStore(kept.root).open(kept.id) as session, session.begin_turn(prompt, "nightly") as turn:
        for name, content in edits.items():
            path = kept.project / name
            with turn.edit(name):
                if content is None:
                    path.unlink()
                else:
                    path.write_bytes(content)
                    path.chmod(mode)


@pytest.fixture
def many(kept: Any) -> Any:
    """A session with one of everything a diff shows."""
    for name in ("notes.txt", "moved.txt", "run.sh", "shuffled.txt"):
        (kept.project / name).write_text(f"{name}\n" if name != "notes.txt" else kept.text())
        (kept.project / name).chmod(0o644)
    (kept.project / "shuffled.txt").write_text("a\nb\nc\nd\n")
    (kept.project / "shuffled.txt").chmod(0o644)
    (kept.project / "target").symlink_to("notes.txt")
    agent_turn(
        kept, "Make", {"logo.png": b"\x89PNG\0", "gone.txt": b"gone\n", "caf\u00e9 \u2028.txt": "\u00e9\n".encode()}
    )
    agent_turn(kept, "Delete", {"gone.txt": None, "old-latin.txt": b"\xe9\n"})
    agent_turn(kept, "Change", {"logo.png": b"\x89PNG\0\0", "run.sh": b"run.sh\n"}, mode=0o755)
    with SessionStore(kept.root).open(kept.id) as session, session.begin_turn("Move") as turn:
        with turn.edit("moved.txt", "sub/moved.txt", "shuffled.txt", "sorted.txt", "target"):
            (kept.project / "sub").mkdir()
            (kept.project / "moved.txt").rename(kept.project / "sub" / "moved.txt")
            (kept.project / "shuffled.txt").rename(kept.project / "sorted.txt")
            (kept.project / "sorted.txt").write_text("a\nb\nc\ne")
            (kept.project / "target").unlink()
            (kept.project / "target").symlink_to("sub/moved.txt")
        turn.gap("shell", ["build/out.o"])
    return kept


def test_in_a_pipe_it_is_a_patch_and_what_is_not_in_it_is_said_on_stderr(cli: Cli, kept: Any) -> None:
    done = cli("diff", kept.id)
    assert done.exit_code == 0
    assert done.out == (
        "diff --git a/notes.txt b/notes.txt\nnew file mode 100644\n--- /dev/null\n+++ b/notes.txt\n"
        "@@ -0,0 +1,3 @@\n+one\n+two\n+three\n"
    )
    assert (
        done.err == "warning: not captured, so it may be missing here, or a part of it: shell commands: build/out.o\n"
    )


def test_a_turn_and_since_take_what_rewind_takes(cli: Cli, kept: Any) -> None:
    names = [each["id"] for each in cli("checkpoints", kept.id, "--json").json]
    by_index = cli("diff", kept.id, "--turn", "2").out
    assert by_index.endswith("@@ -1 +1,2 @@\n one\n+two\n")
    assert cli("diff", kept.id, "--turn", names[1]).out == cli("diff", kept.id, "--turn", names[1][:14]).out == by_index
    assert "deleted file mode" in cli("diff", kept.id, "--since", "3").out
    assert cli("diff", kept.id, "--turn", "2").err == ""


def test_a_run_is_named_by_its_label(cli: Cli, many: Any) -> None:
    said = cli("diff", many.id, "--run", "nightly", "--json").json
    assert {file["path"] for file in said} == {"caf\u00e9 \u2028.txt", "logo.png", "old-latin.txt", "run.sh"}


@pytest.mark.parametrize(
    ("words", "exit_code"),
    [
        (["--turn", "9"], 3),
        (["--since", "nobody"], 3),
        (["--run", "nobody"], 3),
        (["--turn", "1", "--since", "1"], 2),
        (["--turn", "1", "--run", "r", "--json"], 2),
    ],
)
def test_what_cannot_be_shown_is_one_line_and_an_exit_code(
    cli: Cli, kept: Any, words: list[str], exit_code: int
) -> None:
    done = cli("diff", kept.id, *words)
    assert done.exit_code == exit_code
    assert len(done.err.splitlines()) == 1
    assert "error" in done.json if "--json" in words else done.out == ""


def test_the_bytes_of_the_patch_are_those_of_the_files(kept: Any, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    raw = bytes(range(1, 256)).replace(b"\n", b"") + b"\n\xff\xfe"
    agent_turn(kept, "Any bytes", {"raw.txt": raw})
    assert run(["diff", kept.id, "--turn", "4"]) == 0
    shown = capfdbinary.readouterr().out
    assert shown.endswith(b"+" + raw.replace(b"\n", b"\n+") + b"\n\\ No newline at end of file\n")


def test_git_applies_what_was_piped_into_it(kept: Any, tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    agent_turn(kept, "More", {"latin.txt": b"\xe9\r\n\x0c"})
    command = [sys.executable, "-m", "sessions", "diff", kept.id]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    shown = subprocess.run(command, env=environment, capture_output=True, check=True)
    subprocess.run(["git", "apply", "-"], input=shown.stdout, cwd=tmp_path / "copy", check=True)
    for name in ("notes.txt", "latin.txt"):
        assert (tmp_path / "copy" / name).read_bytes() == (kept.project / name).read_bytes()


def test_files_that_git_would_refuse_are_counted_on_stderr(cli: Cli, kept: Any) -> None:
    agent_turn(kept, "Pictures", {"a.png": b"\x89PNG\0", "b.png": b"\x89PNG\0\0", "c.txt": b"text\n"})
    assert "'git apply' refuses this patch: 2 files in it are binary" in cli("diff", kept.id, "--turn", "4").err
    assert "1 file in it is binary" in cli("diff", kept.id, "--turn", "4", "--file", "a.png").err
    for words in (["--turn", "1"], ["--turn", "4", "--stat"], ["--turn", "4", "--json"]):
        assert "git apply" not in cli("diff", kept.id, *words).err


# -- JSON --------------------------------------------------------------------------------------------------------------


def test_the_shape_of_the_json_stays_as_it_is(cli: Cli, many: Any) -> None:
    done = cli("diff", many.id, "--json")
    assert done.out == GOLDEN.read_text(encoding="utf-8")
    assert done.err.count("not captured, so it may be missing here, or a part of it") == 1


def test_json_of_nothing_is_an_empty_array(cli: Cli, kept: Any) -> None:
    agent_turn(kept, "Nothing", {})
    assert cli("diff", kept.id, "--turn", "4", "--json").out == "[]\n"
    assert cli("diff", kept.id, "--turn", "4").out == cli("diff", kept.id, "--turn", "4", "--stat").out == ""


def test_json_is_printed_file_by_file(kept: Any, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    agent_turn(kept, "Many", {f"{number}.txt": b"x\n" for number in range(3)})
    seen: list[str] = []
    made, written = FileDiffs._file, patches_written(seen, monkeypatch)

    def file(self: FileDiffs, change: Any) -> FileDiff:
        seen.append(f"made {change.path.rpartition('/')[2]}")
        return made(self, change)

    monkeypatch.setattr(FileDiffs, "_file", file)
    assert len(cli("diff", kept.id, "--turn", "4", "--json").json) == 3
    assert written == seen
    assert [word.split()[0] for word in seen] == ["made", "wrote", "made", "wrote", "made", "wrote"]


def patches_written(seen: list[str], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note in ``seen`` when an element was handed to stdout."""
    from sessions.cli import output

    real = output.raw_bytes

    def raw_bytes(chunks: Any) -> None:
        for chunk in chunks:
            real((chunk,))
            if b'"path"' in chunk:
                seen.append(f"wrote {json.loads(chunk.strip(b',[] ' + bytes([10])))['path']}")

    monkeypatch.setattr(output, "raw_bytes", raw_bytes)
    return seen


# -- the table ---------------------------------------------------------------------------------------------------------


def test_the_table_counts_like_git(cli: Cli, many: Any) -> None:
    assert cli("diff", many.id, "--stat").out.splitlines() == [
        r" café \u2028.txt            |   1 +",
        " logo.png                   | Bin",
        " notes.txt                  |   3 +++",
        " old-latin.txt              |   1 +",
        " run.sh                     |   0",
        " shuffled.txt => sorted.txt |   2 +-",
        " moved.txt => sub/moved.txt |   0",
        " target                     |   2 +-",
        " 8 files changed, 7 insertions(+), 2 deletions(-)",
    ]


def stat(*counts: tuple[int | None, int | None], columns: int = 60, path: str = "f") -> list[str]:
    files = [FileDiff(path, "modified", "", added, removed, binary=False, by="agent") for added, removed in counts]
    return [plain(line).rstrip() for line in patches.stat_lines(files, columns)]


def test_bars_fit_the_screen_and_show_one_mark_at_least() -> None:
    lines = stat((1000, 500), (1, 0), (None, None))
    assert max(map(len, lines)) <= 60
    assert lines[0].count("+") > 20 > lines[0].count("-") > 10
    assert lines[1].endswith("|    1 +")
    assert lines[2].endswith("|    ?")


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ((1, 0), "1 file changed, 1 insertion(+)"),
        ((0, 2), "1 file changed, 2 deletions(-)"),
        ((0, 0), "1 file changed, 0 insertions(+), 0 deletions(-)"),
    ],
)
def test_the_last_line_leaves_out_what_did_not_happen(counts: tuple[int, int], said: str) -> None:
    assert stat(counts)[-1] == f" {said}"


def test_a_long_path_keeps_its_end() -> None:
    assert "…" in stat((1, 1), path="deep/" * 30 + "name.py")[0]
    assert "name.py | 2 +-" in stat((1, 1), path="deep/" * 30 + "name.py")[0]


# -- on a terminal -----------------------------------------------------------------------------------------------------


def on_terminal(kept: Any, *words: str, lines: int = 24, **environment: str) -> str:
    """Return what the command writes to a terminal, with the line ends of a file."""
    clean = {
        name: value
        for name, value in os.environ.items()
        if name not in {"PAGER", "LESS", "NO_COLOR", "LINES", "COLUMNS"}
    }
    child = pexpect.spawn(
        sys.executable,
        ["-m", "sessions", "diff", kept.id, *words],
        dimensions=(lines, 80),
        env={**clean, "PYTHONPATH": str(Path(__file__).parents[2]), "TERM": "xterm", "LANG": "C.UTF-8", **environment},
        encoding="utf-8",
        timeout=60,
    )
    said = child.read()
    child.close()
    assert child.exitstatus == 0, said
    return said.replace("\r\n", "\n")


def test_a_terminal_gets_colours_unless_no_color_is_set(kept: Any) -> None:
    said = on_terminal(kept)
    assert "\x1b[32m+one\x1b[0m\n" in said
    assert "\x1b[36m@@ -0,0 +1,3 @@\x1b[0m\n" in said
    assert "build/out.o" in said.split("diff --git")[0]
    assert "\x1b" not in on_terminal(kept, NO_COLOR="1")


def test_a_terminal_gets_no_control_characters(kept: Any) -> None:
    agent_turn(kept, "Evil", {"evil\x1b[2J.txt": b"\x1b[31mred\x07\r\n\xff\ttab \xe2\x80\xae\n"})
    said = on_terminal(kept, "--turn", "4", NO_COLOR="1")
    assert "\x1b" not in said
    assert r"+\x1b[31mred\x07\x0d" in said
    assert r"+\xff" in said
    assert r"tab \u202e" in said


def test_long_output_goes_through_the_pager_and_short_output_does_not(kept: Any) -> None:
    agent_turn(kept, "Long", {"long.txt": b"".join(b"line %d\n" % number for number in range(500))})
    pager = {"PAGER": "sed s/^/paged:/", "NO_COLOR": "1"}
    assert "paged:+line 499\n" in on_terminal(kept, **pager)
    assert "paged:" not in on_terminal(kept, "--turn", "1", **pager)
    assert "paged:" not in on_terminal(kept, "--no-pager", **pager)
    assert "paged:" in on_terminal(kept, "--turn", "1", lines=5, **pager)


@pytest.mark.parametrize("pager", ["/no/such/pager", "false", "'unclosed", "", "cat", "sh -c 'exit 127'"])
def test_a_pager_that_does_not_work_is_done_without(kept: Any, pager: str) -> None:
    agent_turn(kept, "Long", {"long.txt": b"".join(b"line %d\n" % number for number in range(20_000))})
    said = on_terminal(kept, "--turn", "4", PAGER=pager, NO_COLOR="1").split("\n")
    assert [line for line in said if line.startswith("+line")] == [f"+line {number}" for number in range(20_000)]


def test_a_pager_that_has_seen_enough_ends_it(kept: Any) -> None:
    agent_turn(kept, "Long", {"long.txt": b"".join(b"line %d\n" % number for number in range(50_000))})
    said = on_terminal(kept, "--turn", "4", PAGER="head -n 8", NO_COLOR="1")
    assert len(said.splitlines()) == 8


def test_what_is_not_certain_is_noted_in_front_of_the_patch() -> None:
    file = FileDiff("f", "modified", "", None, None, binary=False, by="agent", unverified=True)
    assert [plain(line) for line in patches.patch_lines([file])] == [
        "unverified f: nobody recorded what an edit left; how it ended up is not known"
    ]
    assert [plain(line) for line in patches.gap_lines([Gap("shell", (), "msg-1")] * 2)] == [
        "not captured, so it may be missing here, or a part of it",
        "  shell commands",
    ]


def test_a_line_of_a_file_is_no_header_whatever_it_says() -> None:
    text = "diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n--- a/f\n+++ b/f\n @@ -1 +1 @@\ndiff --git a/g b/g\n--- a/g\n"
    file = FileDiff("f", "modified", text, 1, 1, binary=False, by="agent")
    styles = [line[0][0] for line in patches.patch_lines([file])]
    assert styles == ["strong", "strong", "strong", "restore", "remove", "add", "", "strong", "strong"]


def test_it_loads_neither_the_terminal_nor_the_models(kept: Any) -> None:
    code = (
        f"import sys; from sessions.cli.app import run; run(['diff', {kept.id!r}]);"
        " print(sorted({'prompt_toolkit', 'pydantic', 'psutil'} & {*sys.modules}))"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.endswith("\n[]\n")


def test_it_changes_no_byte_and_no_time(cli: Cli, many: Any) -> None:
    def state() -> dict[str, tuple[int, bytes]]:
        return {
            str(path): (path.stat().st_mtime_ns, path.read_bytes())
            for directory in (many.root, many.project)
            for path in directory.rglob("*")
            if path.is_file()
        }

    before = state()
    for words in ([], ["--stat"], ["--json"], ["--turn", "2"], ["--run", "nightly"], ["--since", "2"]):
        assert cli("diff", many.id, *words).exit_code == 0
    assert state() == before
