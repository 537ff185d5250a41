"""Bytes, modes and names come back exactly, whatever they are."""

import hashlib
import os
import random

import pytest
from agent import make, tree, verdicts

BYTES = random.Random(1).randbytes(200_000)
CONTENTS = {
    "random bytes": BYTES,
    "UTF-16 with a byte order mark": "\ufeffzwei Zeilen\r\nähm\r\n".encode("utf-16-le"),
    "GB18030": "项目\n第二行\n".encode("gb18030"),
    "NULs": b"\0" * 5000,
    "empty": b"",
    "one line, not ended": b"line",
    "no UTF-8": b"\xff\xfe\xfd",
    "carriage returns": b"a\r\nb\rc\n",
    "a separator": "a\u2028b\u2029c\x85d\x1ce\n".encode(),
}
NAMES = {
    "plain": b"file",
    "a space and a newline": b"a file\nwith lines",
    "a star": b"*",
    "dashes": b"-rf",
    "no UTF-8": b"caf\xe9-\xff",
    "CJK": "项目.txt".encode(),
    "not normalised": "e\u0301".encode(),
    "quotes": b"'\"`$(x)\\",
    "a separator": "a\u2028b".encode(),
    "the longest": b"n" * 255,
}


def _digests(agent) -> dict[str, str]:
    return {path: hashlib.sha256(state[1]).hexdigest() for path, state in agent.files.items()}


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS.keys())
def test_every_content_comes_back(agent, content):
    make(agent.project / "f", content)
    before = _digests(agent)
    agent.turn("change it", {"f": b"changed" + content[::-1]}, {"g": content})
    after = _digests(agent)
    agent.reopen()
    agent.session.rewind(1)
    assert _digests(agent) == before
    agent.reopen()
    agent.session.undo_rewind()
    assert _digests(agent) == after


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
def test_every_name_comes_back(agent, name):
    text = os.fsdecode(name)
    make(agent.project / text, "v1")
    before = agent.files
    agent.turn("change it", {text: "v2"}, {f"d/{text}": "made"})
    after = agent.files
    agent.reopen()
    report = agent.session.rewind(1)
    assert verdicts(report)[text] == ("restore", None)
    assert agent.files == before
    agent.reopen()
    agent.session.undo_rewind()
    assert agent.files == after
    assert agent.session.checkpoints()[0].files[0].path in {text, f"d/{text}"}


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755, 0o400, 0o777, 0o2755])
def test_every_mode_comes_back(agent, mode):
    make(agent.project / "f", "v1")
    (agent.project / "f").chmod(mode)
    before = agent.files
    agent.turn("change it", {"f": lambda path: (path.chmod(0o640), path.write_text("v2"))})
    after = agent.files
    agent.session.rewind(1)
    assert agent.files == before
    agent.session.undo_rewind()
    assert agent.files == after


def test_a_change_of_the_mode_alone_is_taken_back_and_undone(agent):
    make(agent.project / "run.sh", "#!/bin/sh\n")
    before = agent.files
    agent.turn("make it run", {"run.sh": lambda path: path.chmod(0o755)})
    after = agent.files
    report = agent.session.rewind(1)
    assert verdicts(report) == {"run.sh": ("restore", None)}
    assert [file.note for file in report.files] == ["mode 0755 becomes 0644"]
    assert agent.files == before
    assert [file.note for file in agent.session.undo_rewind().files] == ["mode 0644 becomes 0755"]
    assert agent.files == after


def test_where_the_content_changes_too_nothing_is_said_of_the_mode(agent):
    make(agent.project / "f", "v1")
    agent.turn("both", {"f": lambda path: (path.write_text("v2"), path.chmod(0o755))})
    assert [file.note for file in agent.session.plan_rewind(1).files] == [""]


def test_a_change_of_the_mode_of_a_directory_is_said(agent):
    (agent.project / "d").mkdir(mode=0o755)
    agent.turn("close it", {"d": lambda path: path.chmod(0o700)})
    assert [file.note for file in agent.session.plan_rewind(1).files] == ["mode 0700 becomes 0755"]


def test_a_file_that_cannot_be_written_is_replaced_all_the_same(agent):
    make(agent.project / "f", "v1")
    agent.turn("change and protect it", {"f": lambda path: (path.write_text("v2"), path.chmod(0o444))})
    agent.session.rewind(1)
    assert (agent.project / "f").read_text() == "v1"


def _replaced(path, make_it):
    path.unlink()
    make_it(path)


KINDS = {
    "a link made of a file": lambda path: _replaced(path, lambda p: p.symlink_to("elsewhere")),
    "a directory made of a file": lambda path: _replaced(path, lambda p: make(p / "inside", "x")),
    "an empty directory made of a file": lambda path: _replaced(path, lambda p: p.mkdir()),
    "a file emptied": lambda path: path.write_bytes(b""),
    "a file deleted": lambda path: path.unlink(),
}


@pytest.mark.parametrize("change", KINDS.values(), ids=KINDS.keys())
def test_a_path_that_became_something_else_comes_back(agent, change):
    make(agent.project / "f", "v1")
    before = agent.files
    agent.turn("replace it", {"f": change})
    after = agent.files
    agent.session.rewind(1)
    assert agent.files == before
    agent.reopen()
    agent.session.undo_rewind()
    assert agent.files == after
    agent.session.redo_rewind()
    assert agent.files == before


def test_a_directory_that_became_a_file_comes_back(agent):
    make(agent.project / "d" / "deep" / "f", "v1")
    before = agent.files

    def flatten(path):
        make(path, None)
        path.write_text("flat")

    agent.turn("flatten it", {"d": flatten})
    after = agent.files
    agent.session.rewind(1)
    assert agent.files == before
    agent.session.undo_rewind()
    assert agent.files == after


@pytest.mark.parametrize("target", ["beside", "missing", "/nowhere/at/all", "../project/beside"])
def test_a_link_stays_that_link_and_its_target_is_restored(agent, target):
    make(agent.project / "beside", "v1")
    (agent.project / "link").symlink_to(target)
    before = agent.files

    def write_through(path):
        if target not in {"missing", "/nowhere/at/all"}:
            path.write_text("v2 through the link")
        else:
            path.unlink()
            path.symlink_to("beside")

    agent.turn("change it", {"link": write_through})
    after = agent.files
    assert after != before
    agent.session.rewind(1)
    assert agent.files == before
    agent.session.undo_rewind()
    assert agent.files == after


def test_writing_through_a_dangling_link_makes_a_file_that_goes_again(agent):
    (agent.project / "link").symlink_to("made")
    before = agent.files
    agent.turn("write", {"link": lambda path: path.write_text("v1")})
    after = agent.files
    assert after["made"][1] == b"v1"
    agent.session.rewind(1)
    assert agent.files == before
    agent.session.undo_rewind()
    assert agent.files == after


def test_one_file_named_in_three_ways_is_one_file(agent):
    make(agent.project / "d" / "f", "v1")
    (agent.project / "way").symlink_to("d")
    agent.turn("edit", {"d/f": "v2"}, {"./d/../d/f": "v3"}, {"way/f": "v4"}, {str(agent.project / "d" / "f"): "v5"})
    report = agent.session.rewind(1)
    assert verdicts(report) == {"d/f": ("restore", None)}
    assert (agent.project / "d" / "f").read_text() == "v1"


def test_equal_content_is_kept_once(agent):
    content = bytes(100_000)
    for name in range(10):
        make(agent.project / str(name), content)
    agent.turn("empty them", *({str(name): b""} for name in range(10)))
    agent.turn("fill them", *({str(name): content} for name in range(10)))
    agent.reopen()
    agent.turn("empty them", *({str(name): b""} for name in range(10)))
    stored = {}
    for parent, _, names in os.walk(agent.sidecar):
        for name in names:
            status = os.lstat(os.path.join(parent, name))
            stored[status.st_ino] = status.st_size
    assert sum(size for size in stored.values() if size >= len(content)) == len(content)


def test_an_unrelated_process_directory_changes_nothing(agent, tmp_path, monkeypatch):
    """Paths of edits are relative to the workdir, not to where the process stands."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    make(agent.project / "f", "v1")
    monkeypatch.chdir(elsewhere)
    agent.turn("edit", {"f": "v2"}, {"new/g": "made"})
    agent.session.rewind(1)
    assert tree(elsewhere) == {}
    assert tree(agent.project)["f"][1] == b"v1"
    assert set(tree(agent.project)) == {"f"}


def test_a_directory_named_before_it_exists_goes_with_all_the_edit_put_into_it(agent):
    make(agent.project / "keep", "v1")
    before = agent.files
    agent.turn("scaffold", {"app": lambda path: (make(path / "a", "1"), make(path / "b" / "c", "2"))})
    after = agent.files
    agent.session.rewind(1)
    assert agent.files == before
    agent.session.undo_rewind()
    assert agent.files == after


def test_a_file_deleted_and_made_again_by_an_edit_of_its_directory_is_no_conflict(agent):
    make(agent.project / "d" / "f", "v1")
    agent.turn("rebuild", {"d/f": None}, {"d": lambda path: make(path / "f", "rebuilt")})
    report = agent.session.rewind(1)
    assert verdicts(report) == {"d/f": ("restore", None)}
    assert (agent.project / "d" / "f").read_text() == "v1"


def test_the_workdir_itself_can_be_named(agent):
    make(agent.project / "f", "v1")
    before = agent.files
    agent.turn("rebuild", {".": lambda path: (make(path / "f", "v2"), make(path / "d" / "g", "made"))})
    after = agent.files
    assert verdicts(agent.session.plan_rewind(1)) == {
        "f": ("restore", None),
        "d": ("delete", None),
        "d/g": ("delete", None),
    }
    agent.session.rewind(1)
    assert agent.files == before
    agent.session.undo_rewind()
    assert agent.files == after


def test_a_repository_that_went_with_a_named_directory_is_a_gap(agent):
    make(agent.project / "d" / ".git" / "HEAD", "ref")
    make(agent.project / "d" / "f", "v1")
    agent.turn("remove it", {"d": None})
    plan = agent.session.plan_rewind(1)
    assert [(gap.kind, gap.paths) for gap in plan.gaps] == [("git", ("d/.git",))]
    agent.session.rewind(plan)
    assert set(agent.files) == {"d", "d/f"}


def test_a_repository_in_a_named_directory_that_stays_is_no_gap(agent):
    make(agent.project / ".git" / "HEAD", "ref")
    make(agent.project / "f", "v1")
    agent.turn("change", {".": lambda path: make(path / "f", "v2")})
    assert agent.session.plan_rewind(1).gaps == ()
    agent.session.rewind(1)
    assert agent.files[".git/HEAD"][1] == b"ref"


def test_a_directory_that_cannot_be_read_is_a_gap(agent, monkeypatch):
    make(agent.project / "d" / "closed" / "f", "v1")
    make(agent.project / "d" / "g", "v1")
    real = os.open

    def refuse(path, *args, **options):
        if os.fspath(path) == "closed":
            raise PermissionError(13, "Permission denied")
        return real(path, *args, **options)

    with agent.session.begin_turn("work") as turn:
        with monkeypatch.context() as patch:
            patch.setattr(os, "open", refuse)
            edit = turn.edit("d")
        assert edit.gap == "unreadable"
        with edit:
            make(agent.project / "d" / "g", "v2")
    assert [(gap.kind, gap.paths) for gap in agent.session.plan_rewind(1).gaps] == [("unreadable", ("d/closed",))]
