"""The supervisor of one task: a process of its own, started by `launching`, that imports nothing of this package.

It stands between the host and the program, so that the program needs no host:

1. The host starts an interpreter (`sessions.subagents.supervisor`), and writes this program and a request to its
   standard input: argv, directory, environment, folder.
2. The interpreter becomes the supervisor: a session of its own in ``/``, deaf to every signal that can be ignored,
   without the host's descriptors, and the reaper of all orphans below it (Linux). It stays a child of the host, which
   reaps it while it lives: not every first process of a container reaps what it inherits.
3. The supervisor forks the program, which waits on a pipe. It writes ``process.json`` (to a temporary, renamed), looks
   whether the host still holds the other end of the request's pipe, and only then lets the program go on to ``exec``.
4. It tells the host, on its standard output, what ``process.json`` says or what went wrong, and closes both pipes.
5. It reaps whatever ends. When the program ends it writes ``exit.json`` *before* reaping it: whoever sees that the pid
   is gone finds the file. When nobody is left it writes ``exit.json`` again, with ``gone``, and leaves.

The host may die at any moment. Before the look in step 3: the program never runs one instruction and no
``process.json`` stays. After it: the program runs, supervised, and ``process.json`` is there. The supervisor may die at
any moment: a program that waits sees the end of its pipe and leaves; one that runs goes on.

Nothing is synced: after a power cut no process of then is left to ask about. Room for ``exit.json`` is taken before the
program runs, so a full disk does not keep the end from being told. Where the folder was removed nothing is written.

Start-up is most of what launching costs, so only modules that are built into the interpreter are imported: ``posix`` is
``os`` without its 2 ms, ``_signal`` is ``signal`` without 7 ms of enums, ``_ctypes`` saves 4 ms against ``ctypes``, and
``__future__`` is a file to read. For the same reason the supervisor does its own errands while the program's process
gets ready.
"""

import _signal  # type: ignore[import-not-found]  # what `signal` wraps; typeshed does not know it
import errno
import marshal
import posix
import sys
import time
from posix import _exit as leave

Program = tuple[list[bytes], bytes, dict[bytes, bytes]]  # argv, where it starts, its environment

PROCESS, EXIT, LOG = b"process.json", b"exit.json", b"output.log"
_PROCESS_TEMP, _EXIT_TEMP = b".sessions-process.tmp", b".sessions-exit.tmp"
_ROOM = 256  # more than exit.json ever needs
_PR_SET_CHILD_SUBREAPER = 36
_FAULTS = ("SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT", "SIGTRAP", "SIGSYS")


def supervise(*, program: Program, folder: bytes, boot: str, ask: bool) -> None:
    """Become the supervisor of a new program; never returns.

    Args:
        folder: The task's directory, absolute.
        boot: The boot id.
        ask: Whether the host is to say when a process started, for want of ``/proc``.
    """
    _be_deaf()
    if posix.getsid(0) != posix.getpid():  # the host could not start it so
        posix.setsid()
    posix.chdir("/")
    _close_inherited()
    try:
        pid, adopts = _start(program, folder, boot, ask=ask)
    except OSError as error:
        _tell((error.errno or errno.EIO, error.filename))
        leave(0)
    _let_go_of_host()
    _keep_reaping(pid, folder, adopts=adopts)
    leave(0)


def _be_deaf() -> None:
    for number in _signal.valid_signals():
        if number in {_signal.SIGKILL, _signal.SIGSTOP, *(getattr(_signal, name, 0) for name in _FAULTS)}:
            continue
        # SIGCHLD ignored would have the system reap for us, and lose how the program ended.
        _signal.signal(number, _signal.SIG_DFL if number == _signal.SIGCHLD else _signal.SIG_IGN)
    _signal.pthread_sigmask(_signal.SIG_SETMASK, ())


def _close_inherited() -> None:
    """Close what the host left inheritable: it would stay open as long as the task runs."""
    try:
        highest = max(map(int, posix.listdir("/proc/self/fd")))
    except OSError:
        highest = min(posix.sysconf("SC_OPEN_MAX"), 1 << 16)
    posix.closerange(3, highest + 1)


def _start(program: Program, folder: bytes, boot: str, *, ask: bool) -> tuple[int, bool]:
    """Start the program and tell the host.

    Returns:
        Its pid, and whether orphans below it come to us.

    Raises:
        OSError: It could not be started; nothing runs, and no ``process.json`` is there.
    """
    log = posix.open(folder + b"/" + LOG, posix.O_WRONLY | posix.O_APPEND | posix.O_CREAT | posix.O_CLOEXEC, 0o600)
    waits, release = posix.pipe()
    hears, fails = posix.pipe()
    pid = posix.fork()
    if pid == 0:
        posix.close(release)
        posix.close(hears)
        _be_program(program, log, waits, fails)
    for descriptor in (log, waits, fails):
        posix.close(descriptor)
    try:
        adopts = _become_reaper()
        record = _record(pid, boot, ask=ask)
        _write(folder + b"/" + _EXIT_TEMP, b" " * _ROOM)
        _write(folder + b"/" + _PROCESS_TEMP, record)
        posix.rename(folder + b"/" + _PROCESS_TEMP, folder + b"/" + PROCESS)
        _let_go(release, hears)
    except OSError:
        posix.close(release)  # a program that still waits leaves
        posix.waitpid(pid, 0)
        for name in (_EXIT_TEMP, _PROCESS_TEMP, PROCESS):
            _unlink(folder + b"/" + name)
        raise
    posix.close(release)
    posix.close(hears)
    _tell(record)
    return pid, adopts


def _let_go(release: int, hears: int) -> None:
    """Let the program run, unless the host is gone; return when it does.

    Raises:
        OSError: It does not.
    """
    if _host_is_gone():
        raise BrokenPipeError(errno.EPIPE, "the host is gone")
    posix.write(release, b"!")
    failure = _read(hears, 4096)
    if failure:
        raise OSError(*marshal.loads(failure))  # noqa: S302 - from our own child


def _become_reaper() -> bool:
    if sys.platform != "linux":
        return False
    try:
        import _ctypes  # noqa: PLC0415 - only here, and without the 4 ms of `ctypes` around it

        prctl = _ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl")  # type: ignore[arg-type]  # None is this process
        failed: int = _ctypes.call_cdeclfunction(prctl, (_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
    except (ImportError, AttributeError):
        import ctypes  # noqa: PLC0415 - another interpreter than CPython

        failed = ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    return failed == 0


def _be_program(program: Program, log: int, waits: int, fails: int) -> None:
    """In the forked child: wait, then become the program; never returns."""
    argv, cwd, env = program
    at = cwd
    try:
        posix.setsid()
        for number in _signal.valid_signals():
            if number not in {_signal.SIGKILL, _signal.SIGSTOP}:
                _signal.signal(number, _signal.SIG_DFL)
        _signal.pthread_sigmask(_signal.SIG_SETMASK, ())
        posix.dup2(posix.open("/dev/null", posix.O_RDONLY | posix.O_CLOEXEC), 0)
        posix.dup2(log, 1)
        posix.dup2(log, 2)
        if not posix.read(waits, 1):
            leave(0)
        posix.chdir(cwd)
        at = argv[0]
        _exec(argv, env)
    except OSError as error:
        posix.write(fails, marshal.dumps((error.errno, error.strerror, at)))
    finally:
        leave(127)


def _exec(argv: list[bytes], env: dict[bytes, bytes]) -> None:
    """Execute by the given environment's ``PATH``, as ``os.execvpe`` does: what is there but cannot run is named."""
    name = argv[0]
    if b"/" in name:
        posix.execve(name, argv, env)
    worst: OSError = FileNotFoundError(errno.ENOENT, "No such file or directory")
    for directory in env.get(b"PATH", b"/bin:/usr/bin").split(b":"):
        try:
            posix.execve(directory + b"/" + name if directory else name, argv, env)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            if isinstance(worst, FileNotFoundError):
                worst = error
    raise worst


def _record(program: int, boot: str, *, ask: bool) -> bytes:
    own = posix.getpid()
    if ask:
        posix.write(1, b"%d %d\n" % (program, own))
        ticks = _read_line(0).split()
        if len(ticks) != 2:
            raise BrokenPipeError(errno.EPIPE, "the host is gone")
        ticks_of = {program: int(ticks[0]), own: int(ticks[1])}
    else:
        ticks_of = {pid: _ticks(pid) for pid in (program, own)}

    def identity(pid: int) -> str:
        return f'{{"pid":{pid},"ticks":{ticks_of[pid]},"boot":"{boot}"}}'

    return f'{{"main":{identity(program)},"group":{program},"supervisor":{identity(own)}}}\n'.encode()


def _ticks(pid: int) -> int:
    descriptor = posix.open(f"/proc/{pid}/stat", posix.O_RDONLY | posix.O_CLOEXEC)
    try:
        return int(posix.read(descriptor, 4096).rpartition(b")")[2].split()[19])
    finally:
        posix.close(descriptor)


def _host_is_gone() -> bool:
    posix.set_blocking(0, False)
    try:
        return not posix.read(0, 1)
    except BlockingIOError:
        return False


def _tell(answer: bytes | tuple[int, bytes | None]) -> None:
    try:
        posix.write(1, marshal.dumps(answer))
    except OSError:
        return  # nobody is there to hear it; process.json says it


def _let_go_of_host() -> None:
    nothing = posix.open("/dev/null", posix.O_RDWR | posix.O_CLOEXEC)
    posix.dup2(nothing, 0)
    posix.dup2(nothing, 1)
    posix.close(nothing)


def _keep_reaping(program: int, folder: bytes, *, adopts: bool) -> None:
    """Reap whatever ends, until nobody is left; write how the program ended before it is reaped."""
    end = ""
    while True:
        try:
            pid, exited, status = _next_end()
        except ChildProcessError:
            break
        if pid == program:
            code, signal = (status, "null") if exited else ("null", status)
            end = f'"code":{code},"signal":{signal},"at":"{_now()}"'
            _write_exit(folder, end, gone=False)
        if hasattr(posix, "waitid"):
            posix.waitpid(pid, 0)
    if adopts:
        _write_exit(folder, end, gone=True)


def _next_end() -> tuple[int, bool, int]:
    """Return who ended, whether by exiting, and the code or signal; not reaped yet, where the system can do that."""
    if hasattr(posix, "waitid"):
        ended = posix.waitid(posix.P_ALL, 0, posix.WEXITED | posix.WNOWAIT)
        assert ended is not None
        return ended.si_pid, ended.si_code == posix.CLD_EXITED, ended.si_status
    pid, status = posix.wait()
    exited = posix.WIFEXITED(status)
    return pid, exited, posix.WEXITSTATUS(status) if exited else posix.WTERMSIG(status)


def _write_exit(folder: bytes, end: str, *, gone: bool) -> None:
    record = f'{{{end},"gone":{"true" if gone else "false"}}}\n'.encode()
    if gone:
        # The same text but for one word: written over the first, it needs no room.
        record = record.ljust(_ROOM)
    try:
        if gone:
            _write(folder + b"/" + EXIT, record, make=False)
        else:
            _write(folder + b"/" + _EXIT_TEMP, record.ljust(_ROOM), make=False)
            posix.rename(folder + b"/" + _EXIT_TEMP, folder + b"/" + EXIT)
    except OSError:
        return  # the folder was removed: nobody asks any more


def _write(path: bytes, content: bytes, *, make: bool = True) -> None:
    flags = posix.O_WRONLY | posix.O_CLOEXEC | (posix.O_CREAT | posix.O_TRUNC if make else 0)
    descriptor = posix.open(path, flags, 0o600)
    try:
        if posix.write(descriptor, content) != len(content):
            raise OSError(errno.ENOSPC, "No space left on device")
    finally:
        posix.close(descriptor)


def _unlink(path: bytes) -> None:
    try:
        posix.unlink(path)
    except OSError:
        return


def _now() -> str:
    """Return the time as `sessions.clock.timestamp` spells it."""
    nanoseconds = time.time_ns()
    return (
        time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(nanoseconds // 10**9)) + f".{nanoseconds // 10**6 % 1000:03d}Z"
    )


def _read(descriptor: int, size: int) -> bytes:
    parts = []
    while size > 0:
        part = posix.read(descriptor, min(size, 1 << 20))
        if not part:
            break
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _read_line(descriptor: int) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        byte = posix.read(descriptor, 1)
        if not byte:
            break
        line += byte
    return line
