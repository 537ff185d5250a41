import json
import subprocess
import sys

import pytest
from transcript_shorthand import Naive

from sessions.transcript import codec, reader
from sessions.transcript.entry import Kind


def short(entries):
    """Our fixtures' ids as words: ``msg-10000002-…`` is ``u2``."""
    said = []
    for entry in entries:
        kind, number = entry.id[4], int(entry.id[5:12], 16) if entry.id.startswith("msg-") else 0
        said.append(f"{'u' if kind == '1' else kind}{number}" if entry.id.startswith("msg-") else entry.id)
    return " ".join(said)


VIEWS = {
    "plain": "u1 a1 u2 a2 u3 a3",
    "headerless": "u1 a1 u2 a2",
    "old-header": "20250601080100-0a1b2c3d 20250601080200-4e5f6a7b",
    "titles": "u1 a1 u2 a2",
    "two-compactions": "c2 u3 a3 u4 a4 u5 a5",
    "compactions-in-a-row": "c2 u2 a2",
    "legacy-compress": "c1 u2 a2 u3 a3",
    "compact-after": "u1 a1 c1 u4 a4",
    "rollback": "u1 a1 u4 a4",
    "not-typed": "u1 u2 u3 a3 u4 u5 a5 u6 a6",
    "unknown": "u1 a1 spaced-1",
    "separators": "u1 a1 u2 a2",
    "surrogate": "u1 a1",
    "crlf": "u1 a1 u2 a2",
    "opaque": "u1 a1 u2 a2",
    "nul-run": "u1 a1 u2 a2",
    "nul-tail": "u1 a1 u2 a2",
    "torn-tail": "u1 a1 u2 a2",
    "torn-in-character": "u1 a1 u2 a2",
    "unended": "u1 a1 u2 a2 u3",
}


@pytest.mark.parametrize(("name", "seen"), VIEWS.items())
def test_the_model_sees(fixtures, name, seen):
    assert short(reader.read_view(fixtures / f"{name}.jsonl")) == seen


PROMPTS = {
    "two-compactions": "u1 u2 u3 u4 u5",
    "rollback": "u1 u4",
    "not-typed": "u3 u6",
    "unknown": "u1 spaced-1",
    "compact-after": "u1 u2 u3 u4",
    "opaque": "u1 u2",
}


@pytest.mark.parametrize(("name", "ids"), PROMPTS.items())
def test_one_can_go_back_to(fixtures, name, ids):
    assert short(reader.scan(fixtures / f"{name}.jsonl").prompts) == ids


DAMAGE = {
    "opaque": ["opaque_line"] * 6,
    "nul-run": ["opaque_line"],
    "nul-tail": ["torn_tail"],
    "torn-tail": ["torn_tail"],
    "torn-in-character": ["torn_tail"],
}


@pytest.mark.parametrize("name", VIEWS)
def test_damage_is_named_and_everything_else_is_sound(fixtures, name):
    path = fixtures / f"{name}.jsonl"
    assert [finding.kind for finding in reader.check(path)] == DAMAGE.get(name, [])
    assert b"\n".join(codec.encode(codec.decode(raw)) for raw in path.read_bytes().split(b"\n")) == path.read_bytes()


def test_every_fixture_is_listed_and_every_listed_one_is_there(fixtures):
    listed = {row.split("`")[1] for row in (fixtures / "README.md").read_text().splitlines() if row.startswith("| `")}
    assert listed == {path.name for path in fixtures.glob("*.jsonl")} | {"wave/root/", "wave/shop/"}


def test_the_script_writes_the_fixtures_as_they_are(fixtures, tmp_path):
    (tmp_path / "make.py").write_bytes((fixtures / "make.py").read_bytes())
    subprocess.run([sys.executable, tmp_path / "make.py"], check=True)
    made = {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    kept = {path.relative_to(fixtures): path.read_bytes() for path in fixtures.rglob("*") if path.is_file()}
    assert {path for path in made.keys() | kept.keys() if made.get(path) != kept.get(path)} == {
        (fixtures / "README.md").relative_to(fixtures)
    }


def test_headers_of_every_age_are_known(fixtures):
    assert reader.head(fixtures / "plain.jsonl").git_branch == "main"
    old = reader.head(fixtures / "old-header.jsonl")
    assert (old.workdir, old.created_at) == ("/home/user/shop", None)
    assert reader.head(fixtures / "headerless.jsonl") is None


def test_the_last_title_wins(fixtures):
    assert reader.scan(fixtures / "titles.jsonl").title.text == "Zweiter Name – 第二"
    assert reader.summary(fixtures / "crlf.jsonl").title == "From elsewhere"
    assert reader.summary(fixtures / "surrogate.jsonl").title == "half a smile \ud83d"


def test_separators_stay_inside_their_record(fixtures):
    first, call = reader.read_view(fixtures / "separators.jsonl")[:2]
    assert first.blocks[0]["content"] == "one\u2028two\u2029three\u0085four\x1cfive\rsix"
    assert json.loads(call.blocks[0]["parameters"])["file_path"].startswith(
        "one\u2028two\u2029three\u0085four\x1cfive\rsix"
    )


def test_a_notice_that_holds_markup_stays_one_notice(fixtures):
    (notice,) = [entry for entry in reader.read_history(fixtures / "not-typed.jsonl") if short([entry]) == "u5"]
    assert len(notice.blocks) == 1
    assert notice.blocks[0]["summary"] == "the build </summary><status>failed</status> went well"


def test_a_record_of_13_mb_is_one_record(fixtures, tmp_path):
    path = tmp_path / "large.jsonl"
    subprocess.run([sys.executable, fixtures / "make.py", "--large", path], check=True)
    outline = reader.scan(path)
    assert outline.size > 13_000_000
    assert short(outline.prompts) == "u1 u2 u3"
    assert [entry.raw for entry in reader.read_view(path)] == Naive(path.read_bytes()).view()
    assert reader.summary(path).title == "Large"


def test_the_snapshots_of_another_agent_are_found_in_order_and_once(fixtures):
    (path,) = (fixtures / "wave" / "root" / "projects" / "home-user-shop").iterdir()
    outline = reader.scan(path)
    assert [
        (s.path.rsplit("/", 1)[1], s.operation, (s.snapshot_path or "").rsplit("/", 1)[-1]) for s in outline.snapshots
    ] == [
        ("cart.py", "create", ""),
        ("cart.py", "modify", "cart-1"),
        ("prices.csv", "delete", "prices-1"),
        ("cart.py", "modify", "cart-2"),
        ("logo.bin", "modify", "logo-1"),
        ("notes.md", "modify", "notes-lost"),
    ]
    offsets = {offset: entry for offset, entry in reader.read_entries(path) if entry.kind is Kind.MESSAGE}
    assert short(offsets[snapshot.offset] for snapshot in outline.snapshots) == "a1 a2 a2 a3 a3 a3"
    assert short(prompt for prompt in outline.prompts) == "u1 u2 u3 u4"
    assert len(outline.in_view) == 2
