"""Searching in the rows of a list."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions import assistant_message, searching
from sessions.cli.shelf import StoreShelf
from sessions.searching import Searchable, fold, matching, read
from sessions.transcript import reader

TEXTS = st.text(st.characters(codec=None), max_size=40)


@dataclass(frozen=True)
class Row:
    id: str = "00000000"
    title: str | None = None
    git_branch: str | None = None
    first_prompt: str | None = None


def found(query, *rows, prompts=None):
    return [row.id for row in matching(rows, query, prompts)]


def titles(*said):
    return [Row(str(number), title=title) for number, title in enumerate(said)]


def test_every_word_has_to_be_found_but_each_may_stand_elsewhere():
    row = Row("7d0c9a52", "Mend the parser", "topic/money", "prices in euro")
    for query in ("parser", "parser money", "MONEY euro mend", "7d0c euro", ""):
        assert found(query, row) == [row.id], query
    assert found("parser dollars", row) == []


def test_a_row_is_found_by_all_its_prompts_and_they_are_asked_for_only_where_they_may_help():
    told = Row("told", "other things")
    titled = Row("titled", "The basket")
    asked = []

    def prompts(row):
        asked.append(row.id)
        return ["hello", "now the  BASKET, please"] if row is told else []

    assert found("basket", told, titled, prompts=prompts) == ["titled", "told"]
    assert asked == ["told"]


def test_title_id_branch_first_prompt_and_other_prompts_count_in_this_order():
    rows = [
        Row("more"),
        Row("prompt", first_prompt="the cafe"),
        Row("branch", git_branch="topic/cafe"),
        Row("cafe1234"),
        Row("title", title="decafeinated"),
    ]
    assert found("cafe", *rows, prompts=lambda row: ["a cafe"] if row.id == "more" else []) == [
        "title",
        "cafe1234",
        "branch",
        "prompt",
        "more",
    ]


def test_the_beginning_of_a_word_beats_its_middle_and_equals_stay_in_the_order_they_came():
    assert found("turn", *titles("unreturned", "in turn", "return", "turn_left")) == ["1", "3", "0", "2"]


def test_words_that_stand_together_as_typed_beat_the_same_words_apart():
    assert found("login page", *titles("page after login", "the login  page")) == ["1", "0"]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("retrun", "return"),
        ("refcator", "refactor"),
        ("refator", "refactor"),
        ("refacttor", "refactor"),
        ("migraton", "migrations"),
        ("parsr", "the parser"),
        ("authentification", "authentication"),
        ("eradme", "README.md"),
    ],
)
def test_a_slip_of_the_fingers_is_forgiven(typed, meant):
    assert found(typed, *titles("hello", meant)) == ["1"]


def test_what_was_typed_beats_what_is_like_it_wherever_they_stand():
    like = Row("like", title="return")
    typed = Row("typed", first_prompt="what does retrun mean")
    assert found("retrun", like, typed) == ["typed", "like"]
    assert found("retrun mean", like, typed) == ["typed"]


def test_other_words_are_not_found():
    rows = titles("Add a basket to the shop", "Prices in euro", "Delete old files", "Why is the build slow?")
    for word in ("tests", "banana", "zzz", "xyzzy", "deploy", "ad hoc", "fix", "toe", "sloth"):
        assert found(word, *rows) == [], word


def test_a_few_letters_from_the_middle_of_an_id_find_nothing_and_half_of_it_does():
    row = Row("7d0c9a52-3f1e-4b6a-9c55-2f8e0b1d4a60")
    assert found("c9a5", row) == []
    for word in ("7d0c", "c9a52-3f", "3f1e", "2f8e0b"):
        assert found(word, row) == [row.id], word


@pytest.mark.parametrize(
    ("typed", "written"),
    [
        ("修复", "请修复解析器"),
        ("パーサー", "ハ\u309aーサーを直す"),
        ("ｐａｒｓｅｒ", "the parser"),
        ("cafe\u0301", "Café"),
        ("cafe", "CAFÉ"),
        ("strasse", "Straße"),
        ("ёлка", "ЕЛКА"),
        ("한국", "\u1112\u1161\u11ab\u1100\u116e\u11a8어"),
        ("🚀", "ship 🚀 it"),
        ("❤", "we ❤\ufe0f it"),
        ("\ud83d", "half \ud83d a pair"),
        ("two  words", "two\u3000\n words"),
        ("हिन्दी", "हिन्दी में"),
    ],
)
def test_scripts_are_compared_as_people_read_them(typed, written):
    assert found(typed, *titles("nothing", written)) == ["1"]


def test_marks_that_make_another_letter_count():
    assert found("か", *titles("が")) == []


@given(TEXTS)
def test_folding_again_changes_nothing(text):
    assert fold(fold(text)) == fold(text)


@given(st.lists(TEXTS, min_size=1, max_size=4), TEXTS)
def test_no_text_breaks_a_search_and_every_row_finds_itself(texts, query):
    rows = titles(*texts)
    assert {row.id for row in matching(rows, query)} <= {row.id for row in rows}
    for row in rows:
        assert row in matching(rows, row.title)


def test_what_was_learnt_is_replaced():
    row = Row("a", title="title")
    index = Searchable([row])
    index.learn(row, ["first words"])
    index.learn(row, ["second thoughts"])
    assert index.matching("thoughts title") == [row]
    assert index.matching("first") == []
    assert list(index.lacking("first")) == [row]
    assert list(index.lacking("second title")) == []


def test_words_that_stand_there_need_no_fuzzy_search():
    code = (
        "import sys; from sessions.searching import matching; from types import SimpleNamespace as Row\n"
        "rows = [Row(id='1', title='return', git_branch=None, first_prompt=None)]\n"
        "assert matching(rows, 'turn') == rows and 'rapidfuzz' not in sys.modules\n"
        "assert matching(rows, 'retrun') == rows and 'rapidfuzz' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_slip_is_forgiven_in_what_was_learnt_later():
    rows = titles("one", "two")
    index = Searchable(rows)
    assert index.matching("refcator") == []
    index.learn(rows[1], ["Please refactor it"])
    assert index.matching("refcator") == [rows[1]]


@given(st.lists(st.text("ab C\n", max_size=30), min_size=1, max_size=6), st.text("abC ", min_size=1, max_size=8))
def test_what_is_typed_letter_by_letter_finds_what_it_would_at_once(texts, query):
    rows = [Row(f"ab{number}aba{number}", title=text[:3]) for number, text in enumerate(texts)]
    typed = Searchable(rows)
    for row, text in zip(rows, texts, strict=True):
        typed.learn(row, read([text]))
    for end in range(1, len(query) + 1):
        fresh = Searchable(rows)
        for row, text in zip(rows, texts, strict=True):
            fresh.learn(row, [text])
        assert typed.matching(query[:end]) == fresh.matching(query[:end])


def test_what_is_learnt_between_two_letters_is_found():
    rows = titles("one", "two")
    index = Searchable(rows)
    assert index.matching("ca") == []
    index.learn(rows[1], read(["the cats"]))
    assert index.matching("ca") == index.matching("cat") == [rows[1]]


def test_of_all_rows_together_so_much_is_held_and_then_the_beginnings(monkeypatch):
    monkeypatch.setattr(searching, "_HELD_CHARACTERS", 1000)
    rows = titles("one", "two", "three")
    index = Searchable(rows)
    said = [f"{first} {'x' * 500} {last}" for first, last in (("ape", "bat"), ("cow", "dog"), ("emu", "fox"))]
    for _ in range(2):  # what is learnt anew takes the place of what was known
        for row, text in zip(rows, said, strict=True):
            index.learn(row, read([text]))
    assert [index.matching(word) for word in ("ape", "cow", "emu")] == [[row] for row in rows]
    assert [index.matching(word) for word in ("bat", "dog", "fox")] == [[rows[0]], [], []]


def test_a_word_longer_than_any_is_no_slip_of_what_it_begins_with():
    rows = titles("one")
    index = Searchable(rows)
    index.learn(rows[0], ["x" * 5000])
    assert index.matching("y" + "x" * 4999) == []
    assert index.matching("x" * 4999) == rows


def test_a_store_searches_all_visible_prompts_wherever_they_stand(store, project):
    with store.create(project) as told, store.create(project) as titled:
        for word in ("one", "two basket", "three"):
            with told.begin_turn(f"prompt {word}"):
                told.append(assistant_message("the answer is a needle"))
        told.compact(summary="a summary", keep_rounds=1)
        with told.begin_turn("much later"):
            pass
        with titled.begin_turn("x" * 300 + " end of it"):
            pass
        titled.set_title("Basket")
    assert [row.id for row in store.list(project, search="basket")] == [titled.id, told.id]
    assert [row.id for row in store.list(project, search="basket", limit=1)] == [titled.id]
    assert [row.id for row in store.list(project, search="LATER prompt")] == [told.id]
    assert store.list(project, search="needle") == []
    assert [row.id for row in store.list(project, search="end of it")] == [titled.id]


def test_of_a_prompt_so_much_is_searched_and_of_a_session_with_very_many_the_beginning_of_each(store, project):
    with store.create(project) as session:
        with session.begin_turn(f"{'x' * 8185} inside beyond"):
            pass
        for number in range(140):
            with session.begin_turn(f"start{number} {'y' * 8000} finish{number}"):
                pass
    texts = reader.prompt_texts(session.path)
    assert (texts[0], len(texts)) == (f"{'x' * 8185} inside", 141)
    whole = [text for text in texts if "finish" in text]
    assert texts[: len(whole) + 1] == [texts[0], *whole]
    assert 1 << 20 <= sum(map(len, texts[: len(whole) + 1])) < (1 << 20) + 8192
    assert {len(text) for text in texts[len(whole) + 1 :]} == {200}
    for query, finds in (
        ("inside", True),
        ("beyond", False),
        ("finish1", True),
        ("start139", True),
    ):
        assert bool(store.list(project, search=query)) is finds, query


def test_the_picker_learns_whole_prompts(store, project):
    for said in ("hay", f"{'x ' * 2000} needle"):
        with store.create(project) as session, session.begin_turn(said):
            pass
    listing = StoreShelf(store).list("all")
    assert listing.search("needle") == []
    while listing.learn()():
        pass
    assert [listing.rows[at].id for at in listing.search("needle")] == [session.id]
    assert [listing.rows[at].id for at in listing.search("neelde")] == [session.id]


def test_a_hidden_prompt_is_not_found(store, project):
    with store.create(project) as session:
        for word in ("stays", "goes"):
            with session.begin_turn(word):
                pass
        session.rewind(2, history="hide")
    assert [row.id for row in store.list(project, search="stays")] == [session.id]
    assert store.list(project, search="goes") == []


def test_a_session_that_goes_meanwhile_is_searched_by_what_its_row_says(store, project, monkeypatch):
    with store.create(project) as session, session.begin_turn("a prompt"):
        pass
    overview, gone = store.list(project), store.list(project)
    session.path.rename(session.path.with_suffix(".gone"))
    monkeypatch.setattr("sessions.overview.Overview.rows", lambda *_, **__: list(gone))
    assert store.list(project, search="prompt") == overview
    assert store.list(project, search="banana") == []
