"""The supervisor's entrance: read its program and a request from standard input, and run it (`supervising`).

``python -I -S supervisor.py FOLDER``. The interpreter compiles the script it is given each time, which took a sixth of
a launch; so the script is these lines, and what it runs comes compiled through the pipe, from the interpreter that
started this one. FOLDER is for whoever looks at the list of processes.
"""

import marshal
import posix


def _read(size: int) -> bytes:
    parts = []
    while size > 0 and (part := posix.read(0, size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


if __name__ == "__main__":
    _size = int.from_bytes(_read(8), "big")
    _raw = _read(_size)
    if _size and len(_raw) == _size:  # else the host died
        _code, _request = marshal.loads(_raw)  # noqa: S302 - the pipe's other end is the host
        _names = {"__name__": "supervising"}
        exec(_code, _names)  # noqa: S102 - likewise
        _names["supervise"](**_request)  # type: ignore[operator]  # defined by the code
