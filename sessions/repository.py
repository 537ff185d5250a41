"""What the files around a directory say of its git repository, without asking git."""

from __future__ import annotations

import os


def may_be_one(first: str, second: str) -> bool:
    """Tell whether two directories, resolved, may lie in worktrees of one repository; git knows whether they do.

    They do not where one lies in no repository, or each says which one it is of, and that differs.
    """
    gits = _git_of(first), _git_of(second)
    if None in gits:
        return False
    common = [_common(git) for git in gits if git is not None]
    return None in common or common[0] == common[1]


def _git_of(directory: str) -> str | None:
    """Return the innermost ``.git`` at or above a directory."""
    while True:
        if os.path.lexists(git := os.path.join(directory, ".git")):
            return git
        above = os.path.dirname(directory)
        if above == directory:
            return None
        directory = above


def _common(git: str) -> str | None:
    """Return the directory that all worktrees of a repository share; None where that cannot be read."""
    if os.path.isdir(git):
        own = git
    else:
        said = _line(git)
        if said is None or not said.startswith("gitdir: "):
            return None
        own = os.path.join(os.path.dirname(git), said.removeprefix("gitdir: "))
    if not os.path.isdir(own):
        return None
    shared = _line(os.path.join(own, "commondir"))
    return os.path.realpath(own if shared is None else os.path.join(own, shared))


def _line(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read(8192).rstrip("\n")
    except OSError:
        return None
