"""The last messages in few lines, however long they are."""

from __future__ import annotations

from sessions import assistant_message, user_message
from sessions.cli.excerpt import HEAD, TAIL, excerpt, last_lines
from sessions.picker.text import plain


def said(lines: list) -> list[str]:
    return [plain(line).strip() for line in lines]


def test_of_a_long_text_beginning_and_end_are_shown() -> None:
    text = "first " + "x" * 12_000_000 + " last"
    call = {"type": "tool", "id": "t", "name": "Read", "parameters": "{}", "stage": "end", "result": "y" * 5000}
    lines = said(excerpt([assistant_message(text, blocks=[call])]))
    assert any(line.startswith("first xxx") for line in lines)
    assert any(line.endswith("xxx last") for line in lines)
    assert f"… {len(text) - HEAD - TAIL} more characters …" in lines
    assert sum(map(len, lines)) < 3 * (HEAD + TAIL)


def test_what_is_for_the_model_only_is_left_out() -> None:
    assert said(excerpt([user_message("secret", is_meta=True)])) == []


def test_as_many_whole_messages_as_fit_are_the_end() -> None:
    messages = [user_message(f"prompt {n}") for n in range(9)]
    assert [line for line in said(last_lines(messages, 7)) if line.startswith("prompt")] == ["prompt 7", "prompt 8"]
    long = [*messages, assistant_message("\n".join(f"line {n}" for n in range(40)))]
    assert said(last_lines(long, 5))[-2] == "line 39"
    assert len(last_lines(long, 5)) == 5
    assert last_lines([], 5) == []
