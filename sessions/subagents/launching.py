"""Start the program of a task under a supervisor (`sessions.subagents.supervising` says how)."""

from __future__ import annotations

import errno
import marshal
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import CodeType
from typing import IO

from sessions.subagents.folder import Started, TaskFolder
from sessions.subagents.identity import ON_LINUX, Identity, boot_id, identity_from, identity_of
from sessions.subagents.tagging import TAGS
from sessions.transcript.codec import loads

_ENTRANCE = str(Path(__file__).absolute().with_name("supervisor.py"))
_ASKS = not ON_LINUX  # without /proc the supervisor cannot know when a process started; the host can


def launch(argv: Sequence[str], folder: TaskFolder, *, cwd: str, env: Mapping[str, str]) -> Started:
    """Start a program that goes on without this process.

    It gets a process session of its own, default signals, nothing to read, and no descriptor but 0, 1 and 2; what it
    writes is appended to the folder's log. It is found by the ``PATH`` of ``env``; a relative path with a slash is
    meant from ``cwd``. Safe from any thread. Its supervisor is a child of this process, for ``reap`` when it ended.

    Returns:
        Who runs: the folder's ``process.json`` says the same, and was written before the program's first instruction.

    Raises:
        OSError: It could not be started: with the error of the ``exec`` and the program's name, or of ``chdir`` and
            the directory's. Nothing runs, there is no ``process.json``, and a directory made here is removed.
    """
    made = folder.make()
    try:
        answer = _ask_for(argv, folder, cwd=cwd, env=env)
    except OSError:
        if made:
            folder.log.unlink(missing_ok=True)
            folder.directory.rmdir()
        raise
    record = loads(answer)
    assert isinstance(record, dict)
    return Started(identity_from(record["main"]), int(record["group"]), identity_from(record["supervisor"]))


def _ask_for(argv: Sequence[str], folder: TaskFolder, *, cwd: str, env: Mapping[str, str]) -> bytes:
    directory = os.fsencode(folder.directory.absolute())
    encoded = {os.fsencode(name): os.fsencode(value) for name, value in env.items()}
    words = [os.fsencode(word) for word in argv]
    _refuse_what_no_program_can_get(words, encoded)
    program = (words, os.fsencode(cwd), encoded)
    request = {"program": program, "folder": directory, "boot": boot_id(), "ask": _ASKS}
    reap()
    pid, to, back = _start_interpreter(directory, env.get(TAGS, ""))
    try:
        with to, back:
            said = _talk(to, back, marshal.dumps((_supervising(), request)))
    finally:
        _keep_for_reaping(pid)
    if not said:
        raise ChildProcessError(errno.ECHILD, "the supervisor ended before it could start the program", argv[0])
    answer = marshal.loads(said)  # noqa: S302 - from our own process
    if isinstance(answer, bytes):
        return answer
    number, name = answer
    raise OSError(number, os.strerror(number), argv[0] if name is None else os.fsdecode(name))


def _start_interpreter(directory: bytes, tags: str) -> tuple[int, IO[bytes], IO[bytes]]:
    """Start the supervisor; return its pid, its standard input and its standard output.

    It carries the tags itself: before it said who runs, it is found by them.
    """
    environ = {**os.environ, TAGS: tags}
    hears, to = os.pipe()
    back, says = os.pipe()
    try:
        actions = [
            (os.POSIX_SPAWN_DUP2, hears, 0),
            (os.POSIX_SPAWN_DUP2, says, 1),
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
        ]
        argv = [sys.executable, "-I", "-S", _ENTRANCE, os.fsdecode(directory)]
        try:  # in a session of its own: a Ctrl-C at the terminal must not reach it while it starts, either
            pid = os.posix_spawn(sys.executable, argv, environ, file_actions=actions, setsid=True)
        except NotImplementedError:
            pid = os.posix_spawn(sys.executable, argv, environ, file_actions=actions)
    except BaseException:
        os.close(to)
        os.close(back)
        raise
    finally:
        os.close(hears)
        os.close(says)
    return pid, open(to, "wb", buffering=0), open(back, "rb", buffering=0)


_unreaped: dict[int, Identity] = {}
_reaping = threading.Lock()


def reap() -> None:
    """Reap the supervisors this process started that have ended, and nobody else."""
    with _reaping:
        for pid, identity in list(_unreaped.items()):
            if identity_of(pid) != identity:  # somebody else did, and the number may be another child's by now
                del _unreaped[pid]
                continue
            try:
                if os.waitpid(pid, os.WNOHANG)[0]:
                    del _unreaped[pid]
            except ChildProcessError:  # a forked child of the host asks
                del _unreaped[pid]


def _keep_for_reaping(pid: int) -> None:
    identity = identity_of(pid)
    if identity is not None:
        with _reaping:
            _unreaped[pid] = identity
    reap()


def _refuse_what_no_program_can_get(argv: Sequence[bytes], env: Mapping[bytes, bytes]) -> None:
    if not argv or not argv[0]:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "")
    if any(b"\0" in word for word in (*argv, *env, *env.values())) or any(b"=" in name or not name for name in env):
        raise OSError(errno.EINVAL, "NUL in an argument or the environment, or '=' in a name of it", argv[0])


def _talk(to: IO[bytes], back: IO[bytes], request: bytes) -> bytes:
    """Ask, and return the answer: until it came, the open pipe tells the supervisor that somebody waits for it."""
    try:
        _write(to, len(request).to_bytes(8, "big") + request)
        if _ASKS:
            _write(to, _start_times(_read_line(back)))
    except BrokenPipeError:
        return b""
    parts = []
    while part := back.read(1 << 16):
        parts.append(part)
    return b"".join(parts)


def _start_times(pids: bytes) -> bytes:
    found = [identity_of(int(pid)) for pid in pids.split()]
    return b" ".join(b"%d" % identity.ticks for identity in found if identity is not None) + b"\n"


def _write(pipe: IO[bytes], data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[pipe.write(view) :]


def _read_line(pipe: IO[bytes]) -> bytes:
    line = b""
    while not line.endswith(b"\n") and (byte := pipe.read(1)):
        line += byte
    return line


@cache
def _supervising() -> CodeType:
    name = "sessions.subagents.supervising"
    spec = find_spec(name)
    assert spec is not None
    code = spec.loader.get_code(name)  # type: ignore[union-attr]  # loaders of files and archives have it
    assert isinstance(code, CodeType)
    return code
