"""What a shell is offered when somebody presses Tab: commands, options, choices, and what there is in the store."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from click.shell_completion import BashComplete, CompletionItem, FishComplete, ShellComplete, ZshComplete

from sessions import clock
from sessions.cli import options
from sessions.picker import words
from sessions.picker.text import one_line, visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from click import Command, Context

    from sessions.listing import SessionInfo

VARIABLE = "_SESSIONS_COMPLETE"
PROGRAM = "sessions"

_HERE, _EVERYWHERE = 200, 1_000  # sessions that are looked at: those touched last
_HELP_CELLS = 60
_TITLE_CHARACTERS = 100

_BASH = """\
%(complete_func)s() {
    local IFS=$'\\n' program="${1/#\\~\\//$HOME/}" answer line
    answer=$(env COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD="$COMP_CWORD" %(complete_var)s=bash_complete \\
        "$program" 2>/dev/null)
    COMPREPLY=()
    while read -r line; do
        case "${line%%%%,*}" in
            dir) compopt -o dirnames 2>/dev/null ;;
            file) compopt -o default 2>/dev/null ;;
            plain) COMPREPLY+=("${line#*,}") ;;
        esac
    done <<< "$answer"
}

complete -o nosort -F %(complete_func)s %(prog_name)s 2>/dev/null || complete -F %(complete_func)s %(prog_name)s
"""

_FISH = """\
function %(complete_func)s
    env %(complete_var)s=fish_complete COMP_WORDS=(commandline -cp) COMP_CWORD=(commandline -t) \\
        %(prog_name)s 2>/dev/null | while read --local --line line
        set --local answer (string split --max 1 "," -- $line)
        switch $answer[1]
            case dir
                __fish_complete_directories (commandline -ct)
            case file
                __fish_complete_path (commandline -ct)
            case plain
                printf '%%s\\n' $answer[2]
        end
    end
end

complete --no-files --command %(prog_name)s --arguments "(%(complete_func)s)"
"""

_NEEDS_QUOTING = re.compile(r"([^\w./,+%-])")  # letters of all scripts mean nothing to a shell


class _Bash(BashComplete):
    """As click's, but a value is quoted as the word it completes is: bash puts it on the command line as it stands."""

    source_template = _BASH

    def source(self) -> str:
        return ShellComplete.source(self)  # click's own asks a bash for its version, which need not be the user's

    def get_completion_args(self) -> tuple[list[str], str]:
        args, incomplete = super().get_completion_args()
        return [each for each in args if each != "="], incomplete  # of --option=value, which are three words to bash

    def format_completion(self, item: CompletionItem) -> str:
        return f"{item.type},{_quoted(item.value, _word()) if item.type == 'plain' else item.value}"


class _Fish(FishComplete):
    """As click's, but a value may hold a comma."""

    source_template = _FISH


_SHELLS: dict[str, type[ShellComplete]] = {"bash": _Bash, "zsh": ZshComplete, "fish": _Fish}


def script(command: Command, shell: str) -> str:
    """Return what a shell has to read to complete ``sessions``."""
    return _SHELLS[shell](command, {}, PROGRAM, VARIABLE).source().rstrip("\n")


def answer(command: Command, instruction: str) -> str | None:
    """Return what the script of a shell asked for, in the words of that shell; None where there is no such shell.

    Whatever goes wrong is no candidate: a shell shows a line being typed, and no errors belong into it.
    """
    shell = _SHELLS.get(instruction.removesuffix("_complete"))
    if shell is None:
        return None
    try:
        return shell(command, {}, PROGRAM, VARIABLE).complete()
    except (Exception, KeyboardInterrupt):  # noqa: BLE001 - see above
        return ""


# -- what there is in the store ------------------------------------------------------------------------------------


def sessions_for(context: Context, incomplete: str) -> list[CompletionItem]:
    """Return sessions whose id or title begins so: of this project; where there are none, of all."""
    with context.scope(cleanup=False):
        store = options.store()
    here = list(_sessions(store.list(limit=_HERE), incomplete))
    return here or list(_sessions(store.list(scope="all", limit=_EVERYWHERE), incomplete))


def checkpoints_for(context: Context, incomplete: str) -> list[CompletionItem]:
    """Return the indexes of the prompts of the session that is named already; its message ids where one is begun."""
    from sessions.transcript import reader  # noqa: PLC0415 - sessions alone need less

    with context.scope(cleanup=False):
        path = options.store().find(_reference(context))
    prompts = reader.scan(path, deep=False).prompts
    named = [(str(index), prompt) for index, prompt in enumerate(prompts, 1)]
    if incomplete and not incomplete.isdecimal():
        named = [(prompt.id, prompt) for prompt in prompts]
    return [
        CompletionItem(name, help=one_line(prompt.preview, _HELP_CELLS))
        for name, prompt in named
        if name.startswith(incomplete) and _can_be_typed(name)
    ]


def tasks_for(context: Context, incomplete: str) -> list[CompletionItem]:
    """Return the background tasks of the session that is named already."""
    with context.scope(cleanup=False):
        store = options.store()
        with store.open(_reference(context), read_only=True) as session:
            tasks = session.tasks.list()
    return [
        CompletionItem(task.id, help=one_line(f"{task.state} {task.label}", _HELP_CELLS))
        for task in tasks
        if task.id.startswith(incomplete)
    ]


def _reference(context: Context) -> str:
    """Return the session that is named already; click leaves arguments unparsed where an option lacks its value."""
    return str(context.params.get("reference") or next(iter(context.args), ""))


def _sessions(rows: Iterable[SessionInfo], incomplete: str) -> Iterator[CompletionItem]:
    """Yield each row once while nothing is typed: by the title it was given, else by its id."""
    rows, now = list(rows), clock.now()
    titles = [title for row in rows if (title := _title(row)) is not None]
    for row in rows:
        age = words.ago(row.last_active_at, now)
        title = _title(row)
        is_title = title is not None and titles.count(title) == 1 and title.casefold().startswith(incomplete.casefold())
        if title is not None and is_title:
            yield CompletionItem(title, help=f"{row.id[:8]} · {age}")
        if row.id.startswith(incomplete) and not (is_title and not incomplete):
            yield CompletionItem(row.id, help=one_line(f"{age} · {row.title or words.UNTITLED}", _HELP_CELLS))


def _title(row: SessionInfo) -> str | None:
    """Return the title a session was given, if it can be typed."""
    title = row.given_title
    return title if title is not None and len(title) <= _TITLE_CHARACTERS and _can_be_typed(title) else None


def _can_be_typed(text: str) -> bool:
    return visible(text, keep="") == text and "\\" not in text and not text.startswith("-") and text == text.strip()


# -- quoting for bash ----------------------------------------------------------------------------------------------


def _word() -> str:
    """Return the word that is being completed, as it was typed."""
    typed = os.environ.get("COMP_WORDS", "").split("\n")
    place = os.environ.get("COMP_CWORD", "")
    return typed[int(place)] if place.isdecimal() and int(place) < len(typed) else ""


def _quoted(value: str, word: str) -> str:
    """Return a value as bash has to have it behind the quote a word begins with; it adds the closing one itself."""
    if word.startswith("'"):
        return value.replace("'", "'\\''")
    if word.startswith('"'):
        return re.sub(r'(["$`\\])', r"\\\1", value).replace("!", "\"'!'\"")
    return _NEEDS_QUOTING.sub(r"\\\1", value)
