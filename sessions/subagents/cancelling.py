"""Stop tasks for good: every process of theirs, also those that do not want to be found.

**Who belongs to a task.** Descendants of its supervisor, which every orphan below comes back to; its process group;
whoever carries its tag; whoever was once found, and descendants of all these. While the supervisor lives nobody can
leave. After it died (it was killed) whoever left the group *and* cleared its environment *and* lost its parent before
the first look is not found; that is what ``Caught.proof`` says.

**How.** First everybody is asked: SIGTERM, then SIGCONT, for a stopped process does not see the first. After the grace
everybody left is frozen until a look finds nobody new (a frozen process cannot fork), then killed. It is over when
three looks in a row find nobody. All tasks go through this together, so many take about the time of one.

A number that was given to a stranger is never signalled (`Identity`), nor is this process or one it descends from: a
task that contains those is left alone, and they are named as survivors.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from sessions.subagents.folder import Started
from sessions.subagents.identity import Identity, boot_id, identity_of, is_alive
from sessions.subagents.launching import reap
from sessions.subagents.processes import Table, children_of, own_line, send, wait_for_end

_LOOKS = 3  # in a row that find nobody
_ROUNDS = 20  # of freezing and killing, before survivors are named
_FREEZES = 100  # looks per round
_DYING_S = 2.0  # how long a killed process may take to die, for each that does before it
LEAVING_S = 1.0  # likewise for a supervisor that has nobody left
_CHASE_S = 5.0  # how long to run after one that forks faster than it can be looked at
_BETWEEN_S = 0.01  # between looks while something still ends by itself

Send = Callable[[Identity, int], bool]


@dataclass(frozen=True, slots=True)
class Quarry:
    """What is to be stopped.

    Attributes:
        task: Its id.
        main: The program; None where that is not known.
        group: Its process group. It counts only while the number cannot have been given to a stranger, and never
            where it is this process's own.
        supervisor: Who reaps it; None for an adopted process.
        tag: What its processes carry in their environment; None for an adopted process.
    """

    task: str
    main: Identity | None
    group: int | None
    supervisor: Identity | None
    tag: str | None


def quarry_of(task: str, started: Started | None, tag: str) -> Quarry:
    """Return what to look for of a task.

    Args:
        task: Its id.
        started: Who runs it; None where that is not known.
        tag: What its processes carry; empty where they carry nothing.
    """
    if started is None:
        return Quarry(task, None, None, None, tag or None)
    return Quarry(task, started.main, started.group or None, started.supervisor, tag or None)


@dataclass(frozen=True, slots=True)
class Caught:
    """What became of one quarry.

    Attributes:
        survivors: Who could not be stopped, sorted; empty: nobody is left.
        proof: What "nobody" was looked for by.
    """

    survivors: tuple[int, ...]
    proof: str


def found(quarries: Sequence[Quarry]) -> dict[str, tuple[Identity, ...]]:
    """Return the living processes of each task, without supervisors, by number. One look for all."""
    hunt = _Hunt(quarries)
    hunt.look()
    return {task: tuple(sorted(members, key=_pid)) for task, members in hunt.left.items()}


def stop(quarries: Sequence[Quarry], *, grace_s: float, send: Send = send) -> dict[str, Caught]:
    """Stop tasks for good, all at once.

    Interrupted (Ctrl-C), whoever is frozen by then is killed, and the others are as they were.

    Args:
        grace_s: How long they may take to end by themselves; returns as soon as they did.
        send: How to send a signal; `processes.send`.

    Returns:
        For each task who survived, and by what it was looked for. Where nothing is found that is at once, so it may be
        asked again.
    """
    hunt = _Hunt(quarries, send)
    proofs = {quarry.task: _proof(quarry) for quarry in quarries}
    hunt.wake_supervisors()
    hunt.ask(grace_s)
    hunt.kill()
    hunt.chase()
    reap()
    return {task: Caught(tuple(sorted(map(_pid, left))), proofs[task]) for task, left in hunt.left.items()}


@dataclass(slots=True)
class _Hunt:
    """One call of `stop`: what was found so far, and how to signal it.

    Attributes:
        table: The last look.
        left: Per task, who lived then.
        known: Per task, everybody ever found: a member stays one when its parents are gone.
        refused: Who may not be signalled.
        frozen: Who was stopped, to be killed.
    """

    quarries: Sequence[Quarry]
    send: Send = send
    table: Table = field(default_factory=lambda: Table(()))
    left: dict[str, set[Identity]] = field(default_factory=dict)
    known: dict[str, set[Identity]] = field(default_factory=dict)
    refused: set[Identity] = field(default_factory=set)
    frozen: set[Identity] = field(default_factory=set)

    def look(self) -> set[Identity]:
        """Look who lives; return those who may be signalled: nobody of a task that contains this process."""
        table = self.table = Table.read()
        supervisors = frozenset(sup.pid for sup in self._supervisors() if table.has(sup))
        for quarry in self.quarries:
            known = self.known.setdefault(quarry.task, set())
            members = _members(table, quarry, known, supervisors)
            known |= members
            self.left[quarry.task] = members
            if members & own_line():
                self.refused |= members
        return set().union(*self.left.values()) - self.refused

    def wake_supervisors(self) -> None:
        """Let stopped supervisors go on: they do not notice otherwise that nobody is left."""
        for supervisor in self._supervisors():
            self.signal(supervisor, signal.SIGCONT)

    def ask(self, grace_s: float) -> None:
        """Ask everybody to end, whoever appears meanwhile too; return when nobody is left, or after the grace."""
        deadline = time.monotonic() + grace_s
        asked: set[Identity] = set()
        while targets := self.look():
            for target in targets - asked:
                if self.signal(target, signal.SIGTERM):
                    self.signal(target, signal.SIGCONT)
            asked |= targets
            for target in targets - self.refused:
                if not wait_for_end(target, deadline - time.monotonic()):
                    return
            if time.monotonic() >= deadline:
                return
            time.sleep(_BETWEEN_S if asked - targets else 0)  # a chase should not take a whole processor

    def kill(self) -> None:
        """Freeze everybody, kill everybody, until several looks in a row find nobody."""
        looks = 0 if any(self.left.values()) else 1  # the last look, when everybody had ended by itself, is the first
        for _ in range(_ROUNDS * _LOOKS):
            try:
                self._freeze()
            finally:
                for target in self.frozen:
                    self.signal(target, signal.SIGKILL)
            if self.frozen:
                if not _all_ended(self.frozen - self.refused, _DYING_S):
                    self.look()
                    return  # a process the system itself cannot end: it is named
                self.frozen.clear()
                looks = 0
            else:
                looks += 1
            if looks == _LOOKS:
                return

    def chase(self) -> None:
        """Wait until the supervisors have left: they alone know that nobody is. End what they still wait for.

        A look at the table of processes may miss one that forks and ends faster than the table is read. Whatever is
        orphaned becomes a child of the supervisor, and those are a short list. A supervisor that waits for nobody and
        does not leave (it was killed half, or is stopped) is ended; one that still waits is not: who it waits for
        survived.
        """
        waiting = {each.task: each.supervisor for each in self.quarries if each.supervisor and not self.left[each.task]}
        deadline = time.monotonic() + _CHASE_S
        idle_since: dict[str, float] = {}
        while waiting:
            for task, supervisor in list(waiting.items()):
                found = [child for child in _children_of(supervisor) if child not in self._supervisors()]
                for child in found:
                    self.signal(child, signal.SIGSTOP)
                    self.signal(child, signal.SIGKILL)
                now = time.monotonic()
                since = now if found else idle_since.setdefault(task, now)
                idle_since[task] = since
                if not found and wait_for_end(supervisor, 0.002):
                    del waiting[task]
                elif not found and now - since > LEAVING_S:
                    self.signal(supervisor, signal.SIGKILL)
                elif now > deadline:
                    self.left[task] |= {*found} or {supervisor}
                    del waiting[task]
        self.check()

    def check(self) -> None:
        """Look once more, and keep who a chase did not get."""
        missed = {task: set(left) for task, left in self.left.items()}
        self.look()
        for task, left in missed.items():
            self.left[task] |= {each for each in left if is_alive(each)}

    def signal(self, target: Identity, number: int) -> bool:
        """Send a signal; who may not be signalled is remembered as such."""
        try:
            return self.send(target, number)
        except PermissionError:
            self.refused.add(target)
            return False

    def _freeze(self) -> None:
        for _ in range(_FREEZES):
            new = self.look() - self.frozen
            if not new:
                break
            for target in new:
                self.signal(target, signal.SIGSTOP)
                self.frozen.add(target)

    def _supervisors(self) -> list[Identity]:
        return [quarry.supervisor for quarry in self.quarries if quarry.supervisor is not None]


def _children_of(supervisor: Identity) -> list[Identity]:
    """Return the living children of a supervisor, from the system's own short list where it has one."""
    if not is_alive(supervisor):
        return []
    listed = children_of(supervisor.pid)
    pids = listed if listed is not None else [*Table.read().descendants([supervisor.pid])]
    found = [identity_of(pid) for pid in pids]
    if not is_alive(supervisor):  # else the number was its own when its children were read
        return []
    return [child for child in found if child is not None and is_alive(child)]


def _members(table: Table, quarry: Quarry, known: set[Identity], supervisors: frozenset[int]) -> set[Identity]:
    roots = {identity.pid for identity in known if table.has(identity)}
    if quarry.main is not None and table.has(quarry.main):
        roots.add(quarry.main.pid)
    if quarry.group is not None and _group_counts(table, quarry.main, quarry.group):
        roots |= table.in_group(quarry.group)
    if quarry.tag is not None:
        roots |= table.with_tag(quarry.tag)
    from_supervisor = {quarry.supervisor.pid} if quarry.supervisor and table.has(quarry.supervisor) else set()
    # A supervisor is not stopped, but followed: one of another quarry, inside this task, leads to more of this one.
    members = roots | table.descendants(roots | from_supervisor)
    living = set()
    for pid in members - supervisors:
        stat = table.get(pid)
        if stat is not None and not stat.zombie and not stat.kernel:
            living.add(table.identity(pid))
    return living


def _group_counts(table: Table, main: Identity | None, group: int) -> bool:
    """Tell whether the members of the group are the task's: its number was not given out again."""
    if group <= 1 or group == os.getpgrp() or main is None or main.boot != boot_id():
        return False
    if group != main.pid:
        stat = table.get(main.pid)
        return stat is not None and stat.ticks == main.ticks and stat.group == group
    # While a group has members its number is given to no process: its leader is the one of then, gone, or a stranger.
    leader = table.get(group)
    return leader is None or leader.ticks == main.ticks


def _all_ended(processes: Iterable[Identity], patience_s: float) -> bool:
    """Wait until all have ended; give up when for ``patience_s`` none did."""
    return all(wait_for_end(process, patience_s) for process in processes)


def _proof(quarry: Quarry) -> str:
    if quarry.tag is None:
        return "parentage" if quarry.group is None else "group and parentage"
    supervised = quarry.supervisor is not None and is_alive(quarry.supervisor)
    return "group, parentage and tag" if supervised else "group and tag"


def _pid(identity: Identity) -> int:
    return identity.pid
