"""Sessions another agent (Wave) wrote rewind with their files: snapshots in its messages, bytes below ``file-history``."""

import json
import os
import shutil
from itertools import count
from pathlib import Path

import pytest
from agent import contents, make, verdicts

from sessions import SessionStore, assistant_message

FIXTURE = Path(__file__).parents[2] / "fixtures" / "wave"


class Wave:
    """Writes a session as that agent does, and edits the files."""

    def __init__(self, root: Path, project: Path) -> None:
        self.root, self.project = root, project
        self.id = "0b7a3f52-0000-4000-8000-000000000000"
        encoded = str(project).removeprefix("/").replace("/", "-")
        self.path = root / "projects" / encoded / f"{self.id}.jsonl"
        self.history = root / "file-history" / self.id
        self.path.parent.mkdir(parents=True)
        self.history.mkdir(parents=True)
        self._number = count(1)
        self._line({"type": "metadata", "workdir": str(project), "createdAt": "2026-03-01T09:00:00.000Z"})

    def turn(self, prompt: str, edits: dict[str, bytes | str | None]) -> str:
        """One prompt and its answer; returns the prompt's id."""
        number = next(self._number)
        identity = f"msg-{number:08d}-0000-4000-8000-000000000000"
        self._message("user", identity, [{"type": "text", "content": prompt}], number)
        snapshots = []
        answer = identity.replace("msg-0", "msg-a")
        for path, content in edits.items():
            file = self.project / path
            kept = self.history / f"{number}-{len(snapshots)}"
            operation = "delete" if content is None else "modify" if file.exists() else "create"
            if file.exists():
                shutil.copy(file, kept)
            snapshots.append(
                {
                    "messageId": answer,
                    "filePath": str(file),
                    "timestamp": 1772355600000 + number,
                    "operation": operation,
                    "snapshotPath": str(kept) if file.exists() else "",
                }
            )
            make(file, content)
        blocks = [{"type": "text", "content": "done"}]
        if snapshots:
            blocks.append({"type": "file_history", "snapshots": snapshots})
        self._message("assistant", answer, blocks, number)
        return identity

    def open(self):
        return SessionStore(self.root).open(self.id)

    def _message(self, role: str, identity: str, blocks: list, number: int) -> None:
        moment = f"2026-03-01T09:{number:02d}:00.000Z"
        self._line({"timestamp": moment, "id": identity, "role": role, "blocks": blocks})

    def _line(self, data: dict) -> None:
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(data, ensure_ascii=False, separators=(",", ":")) + "\n")


@pytest.fixture
def wave(root, project):
    make(project / "f", "f0")
    (project / "f").chmod(0o755)
    make(project / "gone", "gone0")
    wave = Wave(root, project)
    wave.ids = {
        1: wave.turn("one", {"f": "f1"}),
        2: wave.turn("two", {"f": "f2", "new": "new2", "gone": None}),
        3: wave.turn("three", {"f": "f3", "new": "new3"}),
    }
    wave.table = {
        1: {"f": b"f0", "gone": b"gone0"},
        2: {"f": b"f1", "gone": b"gone0"},
        3: {"f": b"f2", "new": b"new2"},
    }
    wave.last = {"f": b"f3", "new": b"new3"}
    return wave


@pytest.mark.parametrize("scope", ["both", "code"])
@pytest.mark.parametrize("target", [1, 2, 3])
def test_every_prompt_of_it_rewinds_with_its_files_and_undoes(wave, target, scope):
    before = wave.path.read_bytes()
    with wave.open() as session:
        report = session.rewind(target, scope=scope)
    assert contents(wave.project) == wave.table[target]
    assert os.stat(wave.project / "f").st_mode & 0o777 == 0o755
    assert {reason for action, reason in verdicts(report).values() if action != "unchanged"} == {"unverified"}
    assert (wave.path.read_bytes() == before) == (scope == "code")
    with wave.open() as session:
        session.undo_rewind()
    assert contents(wave.project) == wave.last
    assert wave.path.read_bytes() == before


@pytest.mark.parametrize("target", [1, 2, 3])
@pytest.mark.parametrize("then", [1, 2, 3])
def test_code_alone_goes_anywhere_from_anywhere(wave, target, then):
    with wave.open() as session:
        session.rewind(target, scope="code")
    with wave.open() as session:
        session.rewind(then, scope="code")
        assert contents(wave.project) == wave.table[then]
        session.undo_rewind()
        assert contents(wave.project) == wave.table[target]
        session.undo_rewind()
        assert contents(wave.project) == wave.last


@pytest.mark.parametrize("to", [2, 3])
def test_conversation_first_then_code_by_the_removed_prompt(wave, to):
    before = wave.path.read_bytes()
    with wave.open() as session:
        session.rewind(2, scope="conversation")
        assert contents(wave.project) == wave.last
    with wave.open() as session:
        session.rewind(wave.ids[to], scope="code")
        assert contents(wave.project) == wave.table[to]
        session.undo_rewind()
        assert contents(wave.project) == wave.last
        session.undo_rewind()
    assert wave.path.read_bytes() == before
    with wave.open() as session:
        session.rewind(2)
        assert contents(wave.project) == wave.table[2]


def test_after_the_conversation_went_an_earlier_prompt_takes_all_of_it_back(wave):
    with wave.open() as session:
        session.rewind(3, scope="conversation")
        session.rewind(2, scope="code")
        assert contents(wave.project) == wave.table[2]


def test_checkpoints_show_what_it_did(wave):
    with wave.open() as session:
        listed = session.checkpoints()
    assert [[(file.path, file.status) for file in each.files] for each in listed] == [
        [("f", "modified")],
        [("f", "modified"), ("gone", "deleted"), ("new", "created")],
        [("f", "modified"), ("new", "modified")],
    ]
    assert [each.insertions for each in listed] == [None] * 3


@pytest.mark.parametrize("loss", ["missing", "empty path", "outside", "a directory", "no path"])
def test_a_lost_snapshot_is_skipped_and_the_rest_restored(wave, tmp_path, loss):
    lines = wave.path.read_text().splitlines()
    answer = json.loads(lines[4])
    snapshot = answer["blocks"][1]["snapshots"][0]
    match loss:
        case "missing":
            os.unlink(snapshot["snapshotPath"])
        case "empty path":
            snapshot["snapshotPath"] = ""
        case "outside":
            (tmp_path / "secret").write_text("secret")
            snapshot["snapshotPath"] = str(wave.history / "../../../secret")
        case "a directory":
            os.unlink(snapshot["snapshotPath"])
            os.mkdir(snapshot["snapshotPath"])
        case "no path":
            del snapshot["snapshotPath"]
    lines[4] = json.dumps(answer)
    wave.path.write_text("\n".join(lines) + "\n")
    with wave.open() as session:
        plan = session.plan_rewind(2)
        assert verdicts(plan)["f"] == ("skip", "lost")
        assert plan.partial
        session.rewind(plan)
    assert contents(wave.project) == {"f": b"f3", "gone": b"gone0"}


def test_a_snapshot_that_is_a_link_to_elsewhere_is_lost(wave, tmp_path):
    (tmp_path / "secret").write_text("secret")
    kept = wave.history / "2-0"
    kept.unlink()
    kept.symlink_to(tmp_path / "secret")
    with wave.open() as session:
        assert verdicts(session.plan_rewind(2))["f"] == ("skip", "lost")


def test_a_file_outside_the_workdir_is_skipped_as_outside(wave, tmp_path):
    make(tmp_path / "beside", "v1")
    wave.turn("four", {str(tmp_path / "beside"): "v2", "f": "f4"})
    with wave.open() as session:
        report = session.rewind(4)
    assert verdicts(report) == {str(tmp_path / "beside"): ("skip", "outside"), "f": ("restore", "unverified")}
    assert report.partial
    assert (tmp_path / "beside").read_text() == "v2"
    assert contents(wave.project)["f"] == b"f3"


def test_a_snapshot_repeated_by_a_compaction_counts_once(wave):
    lines = wave.path.read_text().splitlines()
    compact = {"timestamp": "2026-03-01T10:00:00.000Z", "id": "msg-c", "role": "assistant"}
    compact["blocks"] = [{"type": "compact", "content": "summary"}]
    with open(wave.path, "a", encoding="utf-8") as file:
        file.write("\n".join([json.dumps(compact), *lines[-2:]]) + "\n")
    wave.ids[4] = wave.turn("four", {"f": "f4"})
    with wave.open() as session:
        assert len(session.checkpoints()) == 4
        session.rewind(4)
        assert contents(wave.project) == wave.last
        session.rewind(3)
        assert contents(wave.project) == wave.table[3]
        assert wave.ids[3].encode() not in wave.path.read_bytes()


def test_turns_of_ours_behind_its_turns_are_in_the_right_order(wave):
    table = dict(wave.table)
    with wave.open() as session:
        table[4] = contents(wave.project)
        for number in (4, 5):
            with session.begin_turn(f"prompt {number}") as turn, turn.edit("f", "ours"):
                make(wave.project / "f", f"f{number}")
                make(wave.project / "ours", f"ours{number}")
            session.append(assistant_message("done"))
            wave.ids[number] = turn.message_id
            table[number + 1] = contents(wave.project)
    last = table.pop(6)
    for target, state in table.items():
        for scope in ("both", "code"):
            with wave.open() as session:
                session.rewind(target, scope=scope)
                assert contents(wave.project) == state, (target, scope)
                session.undo_rewind()
                assert contents(wave.project) == last


@pytest.mark.parametrize("gone", [2, 4])
@pytest.mark.parametrize("to", [2, 3, 4, 5])
def test_in_a_mixed_session_the_conversation_may_go_first(wave, gone, to):
    with wave.open() as session:
        table = wave.table | {4: contents(wave.project)}
        for number in (4, 5):
            with session.begin_turn(f"prompt {number}") as turn, turn.edit("f"):
                make(wave.project / "f", f"f{number}")
            wave.ids[number] = turn.message_id
            table[number + 1] = contents(wave.project)
        before = wave.path.read_bytes()
        session.rewind(gone, scope="conversation")
        session.rewind(wave.ids[to], scope="code")
        assert contents(wave.project) == table[to]
        session.undo_rewind()
        assert contents(wave.project) == table[6]
        session.undo_rewind()
        assert wave.path.read_bytes() == before
        session.rewind(to, scope="code")
        assert contents(wave.project) == table[to]


def test_its_turns_behind_ours_are_in_the_right_order_too(wave):
    table = dict(wave.table)
    with wave.open() as session:
        table[4] = contents(wave.project)
        with session.begin_turn("four") as turn, turn.edit("f"):
            make(wave.project / "f", "f4")
    table[5] = contents(wave.project)
    wave.ids[4] = turn.message_id
    wave.turn("five", {"f": "f5", "five": "5"})
    last = contents(wave.project)
    for target, state in table.items():
        with wave.open() as session:
            session.rewind(target)
            assert contents(wave.project) == state, target
            session.undo_rewind()
            assert contents(wave.project) == last


def test_a_file_the_user_changed_since_is_guarded(wave):
    make(wave.project / "f", "by hand")
    with wave.open() as session:
        session.rewind(2)
        assert contents(wave.project) == wave.table[2]
        session.undo_rewind()
        assert contents(wave.project)["f"] == b"by hand"


def test_refuse_does_not_trust_what_nobody_recorded(wave):
    from sessions import ConflictError

    with wave.open() as session, pytest.raises(ConflictError, match="nobody recorded"):
        session.rewind(2, on_conflict="refuse")
    assert contents(wave.project) == wave.last


def test_the_fixture_of_such_a_session_rewinds_with_its_files(root, project):
    """The session in ``fixtures/wave``, moved to where this test runs."""
    shutil.copytree(FIXTURE / "shop", project, dirs_exist_ok=True)
    shutil.copytree(FIXTURE / "root", root)
    (path,) = root.glob("projects/*/*.jsonl")
    text = path.read_text().replace("/home/user/shop", str(project)).replace("/home/user/.wave", str(root))
    path.write_text(text)
    with SessionStore(root).open(path.stem) as session:
        before = contents(project)
        assert len(session.checkpoints()) == 4
        for target in (4, 3, 2, 1):
            session.rewind(target)
        assert contents(project).keys() & {"src/cart.py"} == set()
        assert "prices.csv" in contents(project)
        for _undo in range(4):
            session.undo_rewind()
        assert contents(project) == before
        assert path.read_text() == text


@pytest.mark.parametrize("rewound", ["not", "code", "conversation"])
@pytest.mark.parametrize("target", [1, 2, 3])
def test_a_fork_of_it_goes_where_it_goes(wave, target, rewound):
    with wave.open() as session:
        if rewound != "not":
            session.rewind(3, scope=rewound)
        to = target if target < 3 or rewound != "conversation" else wave.ids[3]
        planned = session.plan_rewind(to, scope="code").files
        fork = session.fork()
    with fork:
        SessionStore(wave.root).delete(wave.id)
        assert fork.plan_rewind(to, scope="code").files == planned
        fork.rewind(to, scope="code")
    assert contents(wave.project) == wave.table[target]


def test_a_diff_ends_at_the_state_recorded_next_and_says_so(wave):
    with SessionStore(wave.root).open(wave.id, read_only=True) as session:
        second = {file.path: file for file in session.diff(turn=wave.ids[2]).files}
        last = {file.path: file for file in session.diff(since=3).files}
    assert {path: (file.status, file.unverified) for path, file in second.items()} == {
        "f": ("modified", True),
        "gone": ("deleted", True),
        "new": ("created", True),
    }
    assert "-f1\n\\ No newline at end of file\n+f2\n" in second["f"].text
    assert "+new2\n" in second["new"].text
    assert "-gone0\n" in second["gone"].text
    assert {path: (file.status, file.text) for path, file in last.items()} == {
        "f": ("modified", ""),
        "new": ("modified", ""),
    }


def test_a_diff_of_ours_and_theirs_is_one(wave):
    with wave.open() as session:
        with session.begin_turn("four") as turn, turn.edit("f"):
            make(wave.project / "f", "f4")
        [file] = [file for file in session.diff().files if file.path == "f"]
        assert (file.unverified, file.insertions, file.deletions) == (True, 1, 1)
        assert "-f0\n" in file.text
        assert "+f4\n" in file.text
        [file] = session.diff(turn=4).files
        assert not file.unverified
