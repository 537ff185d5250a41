"""``sessions export``: three formats, for what a transcript may hold; and that it changes nothing."""

from __future__ import annotations

import base64
import json
import os
import re
import resource
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from memory import PEAK_KIB

from sessions import SessionStore
from sessions.cli import export_images, export_text
from sessions.cli.export_html import POLICY

if TYPE_CHECKING:
    from pseudo_terminal import Terminal

Cli = Callable[..., Any]

HERE = Path(__file__).parents[2]
PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n not really").decode()
NASTY = (
    "</title><script>alert(1)</script> \"' & \x1b[2J \x00 \x7f \x9b \ud83d \u202e \ufeff \ufffe \U0001f600 日本 "
    "a\u2028b\u2029c\u0085d\x1ce\rf\r\ng"
)
SPELLED = (
    "</title><script>alert(1)</script> \"' & \\x1b[2J \\x00 \\x7f \\x9b \\ud83d \\u202e \\ufeff \\ufffe \U0001f600 日本 "
    "a\u2028b\u2029c\\x85d\\x1ce\\x0df\ng"
)
VOID = {"meta", "img", "br"}


class Page(HTMLParser):
    """A page: its elements, in order, and the text of each; fails where tags do not match."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None], list[str]]] = []
        self._open: list[tuple[str, list[str]]] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs)
        texts: list[str] = []
        self.elements.append((tag, dict(attrs), texts))
        if tag not in VOID:
            self._open.append((tag, texts))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        for _, texts in self._open:
            texts.append(data)

    def named(self, tag: str, cls: str | None = None) -> Iterator[tuple[dict[str, str | None], str]]:
        for name, attributes, texts in self.elements:
            if name == tag and (cls is None or cls in (attributes.get("class") or "").split()):
                yield attributes, "".join(texts)

    def texts(self, tag: str, cls: str | None = None) -> list[str]:
        return [text for _, text in self.named(tag, cls)]


@pytest.fixture
def say(kept: Any) -> Callable[..., None]:
    """Append a message of these blocks to the kept session."""

    def append(*blocks: dict[str, Any], role: str = "assistant", **more: Any) -> None:
        with SessionStore(kept.root).open(kept.id) as session:
            session.append({"role": role, "blocks": list(blocks), **more})

    return append


def text(content: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "content": content, **more}


def tool(**more: Any) -> dict[str, Any]:
    called = {"type": "tool", "id": "t", "name": "Bash", "parameters": '{"command":"ls","deep":[1]}', "stage": "end"}
    return {**called, **more}


def last_of(markdown: str) -> str:
    """The last message, without its heading."""
    return markdown.rpartition("\n## ")[2].partition("\n\n")[2]


def everything_below(root: Path) -> dict[str, tuple[bytes | None, int]]:
    return {
        str(path): (path.read_bytes() if path.is_file() else None, path.stat().st_mtime_ns)
        for path in sorted(root.rglob("*"))
    }


# -- what is in it -------------------------------------------------------------------------------------------------


def test_the_whole_conversation_is_exported_and_with_view_what_the_model_sees(cli: Cli, kept: Any) -> None:
    whole, view = cli("export", kept.id), cli("export", kept.id, "--view")
    assert (whole.exit_code, whole.err, view.exit_code) == (0, "", 0)
    assert "Begin the notes" in whole.out
    assert "Begin the notes" not in view.out
    assert "Notes were begun." in view.out
    assert cli("export", kept.id, "--history").out == whole.out
    shown = cli("show", kept.id, "--json").json["messages"]
    assert cli("export", kept.id, "--format", "json", "--view").json["messages"] == shown


def test_markdown_says_what_it_is_of_and_has_a_heading_for_each_message(cli: Cli, kept: Any) -> None:
    out = cli("export", kept.id, "--format", "md").out
    assert out.startswith(f"# A kept session\n\n- Session: `{kept.id}`\n- Project: `{kept.project}`\n- Begun: 20")
    headings = re.findall(r"^## (\d+) · (user|assistant) · 20\d\d-[^ ]+ [^ ]+Z(.*)$", out, flags=re.MULTILINE)
    assert [number for number, _, _ in headings] == [str(number) for number in range(1, len(headings) + 1)]
    assert (" · summary of what came before") in {notes for _, _, notes in headings}
    assert "\nBegin the notes\n" in out


def test_markdown_shows_every_kind_of_block(cli: Cli, kept: Any, say: Any) -> None:
    say(
        {"type": "reasoning", "content": "first\n\nsecond"},
        tool(result="a ``` b", success=True),
        tool(parameters="not json", stage="running", name="a`b"),
        tool(error="no such file", success=False),
        {"type": "image", "imageUrls": [f"data:image/png;base64,{PIXEL}", "shots/one.png"]},
        {"type": "error", "content": "overloaded"},
        {"type": "file_history", "snapshots": [{"filePath": "/w/a*b", "operation": "modify"}]},
        {"type": "poll", "options": ["yes", "no"]},
    )
    assert last_of(cli("export", kept.id).out) == (
        "> first\n>\n> second\n\n"
        '**Tool** `Bash` · ok\n\n```json\n{\n  "command": "ls",\n  "deep": [\n    1\n  ]\n}\n```\n\n'
        "Result:\n\n````\na ``` b\n````\n\n"
        "**Tool** `` a`b `` · running\n\n```\nnot json\n```\n\n"
        '**Tool** `Bash` · failed\n\n```json\n{\n  "command": "ls",\n  "deep": [\n    1\n  ]\n}\n```\n\n'
        "Error:\n\n```\nno such file\n```\n\n"
        "*Image: image/png, 19 bytes*\n\n*Image* `shots/one.png`\n\n"
        "\\[error\\]\n\noverloaded\n\n"
        "\\[file_history\\] modify /w/a\\*b\n\n".replace("_history", "\\_history")
        + '\\[poll\\]\n\n```json\n{"type":"poll","options":["yes","no"]}\n```\n'
    )


def test_markdown_shows_what_users_hooks_and_tasks_said(cli: Cli, kept: Any, say: Any) -> None:
    say({"type": "bang", "command": "make", "output": "no\n", "exitCode": 2}, role="user")
    assert last_of(cli("export", kept.id).out) == "*The user ran a command* · exit 2\n\n```console\n$ make\nno\n```\n"
    say(text("remember", source="hook"), role="user", isMeta=True)
    out = cli("export", kept.id).out
    assert out.rpartition("\n## ")[2].partition("\n")[0].endswith("Z · for the model only")
    assert last_of(out) == "*A hook said:*\n\nremember\n"
    notice = {"type": "task_notification", "taskId": "t_1", "taskType": "shell", "status": "failed",
              "summary": "</summary>", "result": "lines"}  # fmt: skip
    say(notice, role="user")
    assert last_of(cli("export", kept.id).out) == "*Task t\\_1 failed:*\n\n```\n</summary>\n```\n\n```\nlines\n```\n"


@pytest.mark.parametrize(
    "harmless",
    [
        "plain *text*\n# a heading",
        "```py\ncode <b>\n```\nafter",
        "~~~\n```\n~~~",
        "````\n```\n````",
        "a `<div>` and ``a ` <b>``, <https://example.org> and 1 < 2",
        "- a list\n\n      indented\n",
        "```\n",  # see below: this one is left open
    ],
)
def test_text_that_closes_what_it_opens_stands_as_it_was_written(harmless: str) -> None:
    assert export_text.stands_alone(harmless) == (harmless != "```\n")


@pytest.mark.parametrize(
    "open_ended",
    [
        "```\ncode",
        "```\ncode\n~~~",
        "````\ncode\n```",
        "- item\n  ```\n```",
        "- item\n  ```\nb\n  ```",
        "<!-- the rest is gone",
        "text <details>",
        "\\`<script>`",
        "<?php",
    ],
)
def test_text_that_could_hide_what_follows_it_is_fenced(cli: Cli, kept: Any, say: Any, open_ended: str) -> None:
    assert not export_text.stands_alone(open_ended)
    say(text(open_ended))
    fence = "`" * (5 if "````" in open_ended else 4 if "```" in open_ended else 3)
    assert last_of(cli("export", kept.id).out) == f"{fence}\n{open_ended}\n{fence}\n"
    say({"type": "reasoning", "content": open_ended})
    quoted = "".join(f"> {line}\n" for line in [fence, *open_ended.split("\n"), fence])
    assert last_of(cli("export", kept.id).out) == quoted


def test_what_no_file_should_hold_is_spelled_out_and_all_other_text_stays(cli: Cli, kept: Any, say: Any) -> None:
    say(text(NASTY))
    assert SPELLED in cli("export", kept.id).out
    page = Page(cli("export", kept.id, "--format", "html").out)
    assert page.texts("div", "said")[-1] == SPELLED


# -- the page ------------------------------------------------------------------------------------------------------


def test_the_page_is_escaped_everywhere_and_can_load_nothing(cli: Cli, kept: Any, say: Any) -> None:
    evil = "\"'><script>alert(1)</script><img src=x onerror=alert(1)>"
    say(
        text(evil),
        {"type": "reasoning", "content": evil},
        tool(name=evil, parameters=evil, result=evil, error=evil),
        {"type": "image", "url": evil},
        {"type": "image", "data": PIXEL, "mediaType": evil},
        {"type": "image", "data": f'{PIXEL}" onerror="alert(1)', "mediaType": "image/png"},
        {"type": "image", "url": "https://example.org/x.png"},
        {"type": "image", "url": f"data:image/svg+xml;base64,{PIXEL}"},
        {"type": "image", "url": f"data:text/html;base64,{PIXEL}"},
        {"type": evil, "content": evil},
        {"type": "task_notification", "taskId": evil, "taskType": evil, "status": "killed", "summary": evil},
        id=evil,
        timestamp=evil,
    )
    say({"type": "bang", "command": evil, "output": evil, "exitCode": 0}, role="user")
    with SessionStore(kept.root).open(kept.id) as session:
        session.set_title(f"</title>{evil}")
    out = cli("export", kept.id, "-f", "html").out
    page = Page(out)
    names = {name for name, _, _ in page.elements}
    assert not names & {"script", "link", "iframe", "object", "base", "form", "a:href", "svg", "img"}
    attributes = {name for _, given, _ in page.elements for name in given}
    assert attributes <= {
        "lang", "charset", "http-equiv", "content", "name", "dir", "class", "id", "href", "datetime",
    }  # fmt: skip
    assert all(re.fullmatch(r"#[\w.-]+", given["href"] or "") for given, _ in page.named("a"))
    [title] = page.texts("title")
    assert title == f"</title>{evil}"
    assert page.texts("h1") == [title]
    policies = [given["content"] for given, _ in page.named("meta") if "http-equiv" in given]
    assert policies == [POLICY] == ["default-src 'none'; style-src 'unsafe-inline'; img-src data:"]
    assert out.startswith("<!DOCTYPE html>")


def test_the_page_folds_what_programs_said_and_shows_the_rest(cli: Cli, kept: Any, say: Any) -> None:
    say(
        text("before\n```py\nif a < b:\n    pass\n```\nafter"),
        {"type": "reasoning", "content": "pondering"},
        tool(result="\nline 1\nline 2", success=True),
        role="assistant",
    )
    page = Page(cli("export", kept.id, "-f", "html").out)
    assert page.texts("div", "said")[-3:] == ["before", "after", "pondering"]
    assert page.texts("summary")[-2:] == ["reasoning", 'tool Bash {"command":"ls","deep":[1]} · ok']
    assert page.texts("pre")[0] == "\nif a < b:\n    pass"
    assert page.texts("pre")[-1] == "\n\nline 1\nline 2", "a parser drops the first new line"
    assert "pondering" in page.texts("details")[-2]
    speakers = [given["class"] for given, _ in page.named("article")]
    assert {"user", "assistant", "assistant summary"} == set(speakers)


def test_images_that_the_transcript_holds_are_in_the_page_if_they_are_pictures_of_bounded_size(
    cli: Cli, kept: Any, say: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrapped = f"{PIXEL[:8]}\n{PIXEL[8:]}"
    say(
        {"type": "image", "imageUrls": [f"data:image/png;base64,{PIXEL}"]},
        {"type": "image", "source": {"type": "base64", "media_type": "image/webp", "data": wrapped}},
        tool(images=[{"data": PIXEL, "mediaType": "image/jpeg"}]),
        {"type": "image", "image_url": {"url": f"data:image/gif;charset=x;base64,{PIXEL}"}},
    )
    page = Page(cli("export", kept.id, "-f", "html").out)
    assert [given["src"] for given, _ in page.named("img")] == [
        f"data:image/{kind};base64,{PIXEL}" for kind in ("png", "webp", "jpeg", "gif")
    ]
    monkeypatch.setattr(export_images, "_EMBEDDED_CHARACTERS", len(PIXEL) - 1)
    page = Page(cli("export", kept.id, "-f", "html").out)
    assert list(page.named("img")) == []
    assert page.texts("p", "note")[-1] == "[image/gif, 19 bytes]"


def test_anchors_are_unique_and_stay_when_the_conversation_goes_on(cli: Cli, kept: Any, say: Any) -> None:
    say(text("one"), id="odd id/é")
    say(text("two"), id="odd id?")
    with kept.path.open("ab") as file:
        file.write(b'{"role":"user","blocks":[{"type":"text","content":"no id"}]}\n')
    before = [given["id"] for given, _ in Page(cli("export", kept.id, "-f", "html").out).named("article")]
    say(text("three"))
    after = [given["id"] for given, _ in Page(cli("export", kept.id, "-f", "html").out).named("article")]
    assert after[:-1] == before
    assert len(set(after)) == len(after)
    assert before[-3:] == ["odd_id_", "odd_id_-2", f"message-{len(before)}"]


# -- JSON ----------------------------------------------------------------------------------------------------------


def test_json_holds_the_row_of_the_list_and_every_message_byte_for_byte(cli: Cli, kept: Any) -> None:
    odd = '{"role":"user" , "id":"x","blocks":[{"type":"text","content":"a\u2028b\u0085\\u00e9"}],"n":123456789012345678901}'
    with kept.path.open("ab") as file:
        file.write(f'{{broken\n  {odd} \r\n{{"type":"unknown"}}\n'.encode())
    done = cli("export", kept.id, "--format", "json")
    assert done.exit_code == 0
    assert set(done.json) == {"session", "messages"}
    assert done.json["session"] == cli("list", "--json").json[0]
    lines = [line.rstrip(b",") for line in done.out.encode().split(b"\n")[2:-2]]
    transcript = kept.path.read_bytes().split(b"\n")
    assert lines[-1] == odd.encode()
    changed = set(lines) - {line.strip() for line in transcript}
    assert all(rb"\ufffd" in line for line in changed), "only what held a lone surrogate, which jq and others refuse"
    assert len(changed) == 1
    assert [message["role"] for message in done.json["messages"]] == [json.loads(line)["role"] for line in lines]
    assert b"broken" not in done.out.encode()
    assert done.json["messages"][2]["blocks"][0]["content"] == "Add \x1b[31mtwo\nlines \ufffd"


def test_an_empty_session_is_exported_in_every_format(cli: Cli, kept: Any) -> None:
    kept.path.write_bytes(b"")
    assert cli("export", kept.id).out.startswith("# (untitled)\n")
    assert Page(cli("export", kept.id, "-f", "html").out).texts("main") == ["\n"]
    assert cli("export", kept.id, "-f", "json").json["messages"] == []


@pytest.mark.parametrize("sample", sorted((HERE / "fixtures").glob("*.jsonl")), ids=lambda path: path.stem)
def test_every_sample_is_exported(cli: Cli, kept: Any, sample: Path) -> None:
    kept.path.write_bytes(sample.read_bytes())
    history = cli("show", kept.id, "--history", "--json").json["messages"]
    shown = [
        message
        for at, message in enumerate(history)
        if message.get("id") not in {each.get("id") for each in history[:at]}
    ]
    assert cli("export", kept.id, "-f", "json").json["messages"] == shown
    assert len(Page(cli("export", kept.id, "-f", "html").out).texts("article")) == len(shown)
    assert len(re.findall(r"^## \d+ · ", cli("export", kept.id).out, flags=re.MULTILINE)) == len(shown)


# -- where it goes -------------------------------------------------------------------------------------------------


def test_a_file_is_written_with_the_permissions_of_any_new_file(cli: Cli, kept: Any) -> None:
    umask = os.umask(0o027)
    try:
        done = cli("export", kept.id, "-o", "talk.md")
    finally:
        os.umask(umask)
    assert (done.exit_code, done.out, done.err) == (0, "the conversation was written to talk.md\n", "")
    written = kept.project / "talk.md"
    assert stat.S_IMODE(written.stat().st_mode) == 0o640
    assert written.read_text() == cli("export", kept.id, "-o", "-").out
    assert [name for name in os.listdir(kept.project) if name.startswith(".sessions-")] == []


def test_a_file_that_is_there_is_replaced_only_with_yes(cli: Cli, kept: Any) -> None:
    target = kept.project / "talk.html"
    target.write_text("mine")
    target.chmod(0o604)
    refused = cli("export", kept.id, "-f", "html", "-o", "talk.html")
    assert (refused.exit_code, target.read_text()) == (2, "mine")
    assert len(refused.err.splitlines()) == 1
    assert "--yes" in refused.err
    assert cli("export", kept.id, "-f", "html", "-o", "talk.html", "--yes").exit_code == 0
    assert target.read_text().startswith("<!DOCTYPE html>")
    assert stat.S_IMODE(target.stat().st_mode) == 0o604


def test_on_a_terminal_it_asks(in_terminal: Callable[..., Terminal], kept: Any) -> None:
    target = kept.project / "talk.md"
    for answer, left in (("n\r", "mine"), ("y\r", "# A kept session")):
        target.write_text("mine")
        user = in_terminal(["-m", "sessions", "export", kept.id, "-o", "talk.md"])
        user.shows("talk.md is there already. Replace it?")
        user.press(answer)
        user.end()
        assert target.read_text().startswith(left)
        assert user.exit_code == (130 if answer == "n\r" else 0)


def test_a_file_made_meanwhile_is_not_replaced(cli: Cli, kept: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from sessions.session import Session

    lines = Session.lines

    def meanwhile(self: Session, **more: Any) -> Any:
        (kept.project / "talk.md").write_text("theirs")
        return lines(self, **more)

    monkeypatch.setattr(Session, "lines", meanwhile)
    done = cli("export", kept.id, "-o", "talk.md")
    assert (done.exit_code, (kept.project / "talk.md").read_text()) == (5, "theirs")


def test_ctrl_c_leaves_neither_a_file_nor_a_part_of_one(cli: Cli, kept: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from sessions.session import Session

    def interrupted(self: Session, **more: Any) -> Iterator[Any]:
        yield from list(lines(self, **more))[:2]
        raise KeyboardInterrupt

    lines = Session.lines
    monkeypatch.setattr(Session, "lines", interrupted)
    before = sorted(os.listdir(kept.project))
    assert cli("export", kept.id, "-o", "talk.md").exit_code == 130
    assert sorted(os.listdir(kept.project)) == before


def test_neither_a_directory_nor_the_store_is_written_over(cli: Cli, kept: Any) -> None:
    before = kept.path.read_bytes()
    link = kept.project / "link"
    link.symlink_to(kept.path)
    for target in (str(kept.project), str(kept.path), str(kept.path.with_name("new.jsonl")), "link"):
        done = cli("export", kept.id, "-o", target, "--yes")
        assert (done.exit_code, len(done.err.splitlines())) == (2, 1)
    assert kept.path.read_bytes() == before
    assert not kept.path.with_name("new.jsonl").exists()
    assert cli("export", kept.id, "-o", "no/such/directory.md").exit_code == 7


def test_a_pipe_and_a_device_are_written_to_and_stay_what_they_are(cli: Cli, kept: Any) -> None:
    fifo = kept.project / "fifo"
    os.mkfifo(fifo)
    reader = subprocess.Popen(["cat", str(fifo)], stdout=subprocess.PIPE)
    assert cli("export", kept.id, "-o", "fifo").exit_code == 0
    assert reader.communicate(timeout=60)[0].startswith(b"# A kept session\n")
    assert stat.S_ISFIFO(fifo.stat().st_mode)
    assert cli("export", kept.id, "-o", "/dev/full").exit_code == 7


@pytest.mark.parametrize("form", ["md", "html", "json"])
def test_an_export_changes_nothing_and_works_while_somebody_writes(cli: Cli, kept: Any, form: str) -> None:
    with SessionStore(kept.root).open(kept.id):
        before = everything_below(kept.root)
        assert cli("export", kept.id, "--format", form).exit_code == 0
        assert everything_below(kept.root) == before


@pytest.mark.parametrize(
    ("words", "exit_code"),
    [(["nope"], 3), ([], 2), (["ID", "--format", "pdf"], 2), (["ID", "--root", "/nowhere"], 3)],
)
def test_errors_are_one_line(cli: Cli, kept: Any, words: list[str], exit_code: int) -> None:
    done = cli("export", *(kept.id if word == "ID" else word for word in words))
    assert (done.exit_code, done.out, len(done.err.splitlines())) == (exit_code, "", 1)


@pytest.mark.parametrize("form", ["md", "html", "json"])
def test_memory_does_not_grow_with_the_conversation(kept: Any, form: str) -> None:
    result = "x <y> é\n" * 40_000
    with kept.path.open("ab") as file:
        for number in range(300):
            line = {"timestamp": "2026-03-01T10:00:00.000Z", "id": f"m{number}", "role": "assistant",
                    "blocks": [tool(result=result)]}  # fmt: skip
            file.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
    assert kept.path.stat().st_size > 100_000_000
    code = (
        "import sys\nfrom sessions.cli.app import run\n"
        f"code = run(['export', {kept.id!r}, '--format', {form!r}])\n"
        f"print({PEAK_KIB}, file=sys.stderr)\nsys.exit(code)"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(HERE)},
    )
    assert child.stdout is not None
    assert child.stderr is not None
    size = 0
    while part := child.stdout.read(1 << 20):
        size += len(part)
    peak = int(child.stderr.read().split()[-1]) * (1 if sys.platform == "linux" else 1 / resource.getpagesize())
    assert (child.wait(), size > 100_000_000) == (0, True)
    assert peak < 100_000, "KiB"


def test_a_reader_that_went_away_is_no_error(kept: Any) -> None:
    child = subprocess.run(
        f"{sys.executable} -m sessions export {kept.id} | head -1",
        shell=True,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(HERE)},
        check=False,
    )
    assert (child.returncode, child.stdout, child.stderr) == (0, b"# A kept session\n", b"")


def test_what_a_compaction_keeps_word_for_word_is_exported_once(cli: Cli, kept: Any) -> None:
    with SessionStore(kept.root).open(kept.id) as session:
        session.compact(summary="so far")
    messages = cli("export", kept.id, "--format", "json").json["messages"]
    said = [message["id"] for message in messages]
    assert len(said) == len(set(said))
    assert any(block["type"] == "compact" for message in messages for block in message["blocks"])
    page = cli("export", kept.id, "--format", "html").out
    places = re.findall(r'<article id="([^"]*)"', page)
    assert len(places) == len(set(places)) == len(said)


@pytest.mark.parametrize(
    ("name", "begins"), [("x.html", "<!doctype html>"), ("x.JSON", '{"session"'), ("x.md", "# "), ("x", "# ")]
)
def test_the_name_of_the_file_says_the_format(cli: Cli, kept: Any, tmp_path: Path, name: str, begins: str) -> None:
    assert cli("export", kept.id, "--output", str(tmp_path / name)).exit_code == 0
    assert (tmp_path / name).read_text().lower().startswith(begins.lower())


def test_a_call_that_returned_behind_a_compaction_is_exported_with_its_result(cli: Cli, kept: Any, say: Any) -> None:
    say(tool(stage="running"), id="call")
    with SessionStore(kept.root).open(kept.id) as session:
        session.compact(summary="so far")
    say(tool(result="THE RESULT"), id="call")
    assert "THE RESULT" in cli("export", kept.id).out
    assert [each["id"] for each in cli("export", kept.id, "-f", "json").json["messages"]].count("call") == 1
