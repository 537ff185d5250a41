"""The field's shorthand for transcripts, and a reader so plain that it cannot be wrong in the same way as ours.

``script("H u1 a1 c1 u2")``: u prompt, a answer, c compaction, k its older spelling, m meta, h hook, b bang, n task
notification, f answer with file snapshots, H header, T:name title, R:u2 rollback, x unreadable, o unknown, e empty line.
A message's minute is its number, a compaction's its place; ``c1@9`` sets it. ``c1>a1`` sets an ``after``, ``a1=text`` the
content. A repeated word is the same line again.
"""

import json

STAMP = "2026-03-01T09:{:02d}:00.000Z"


def script(words: str) -> list[bytes]:
    said: dict[str, bytes] = {}
    for place, word in enumerate(words.split()):
        said.setdefault(word, line(word, place % 60))
    return [said[word] for word in words.split()]


def line(word: str, minute: int = 0) -> bytes:  # noqa: C901, PLR0911, PLR0912 - a table of words
    kind, rest = word[0], word[2:]
    match kind:
        case "H":
            return dump(
                {"type": "metadata", "workdir": "/home/user/shop", "createdAt": STAMP.format(0), "gitBranch": "main"}
            )
        case "T":
            return dump({"type": "custom-title", "customTitle": rest, "sessionId": "s"})
        case "R":
            return dump({"type": "rollback", "throughTurnId": 1, "reason": "rewind", "messageId": rest})
        case "o":
            return dump({"type": "telemetry", "value": word})
        case "x":
            return b'{"broken":' + word.encode()
        case "e":
            return b""
    word, _, text = word.partition("=")
    word, _, after = word.partition(">")
    name, _, at = word.partition("@")
    if kind not in "ck":
        minute = int("".join(filter(str.isdigit, name)) or 0) % 60  # of a compaction, its place in the script
    blocks, more = [{"type": "text", "content": text or name}], {}
    match kind:
        case "c" | "k":
            blocks = [{"type": "compact" if kind == "c" else "compress", "content": text or f"summary {name}"}]
            more = {"after": after} if after else {}
        case "m":
            more = {"isMeta": True}
        case "h":
            blocks[0]["source"] = "hook"
        case "b":
            blocks = [{"type": "bang", "command": "ls", "output": "", "exitCode": 0}]
        case "n":
            blocks = [
                {
                    "type": "task_notification",
                    "taskId": "t",
                    "taskType": "shell",
                    "status": "completed",
                    "summary": "</summary>",
                }
            ]
        case "f":
            taken = {
                "messageId": name,
                "filePath": f"/home/user/shop/{name}.py",
                "timestamp": 1,
                "operation": "create",
                "snapshotPath": "",
            }
            blocks.append({"type": "file_history", "snapshots": [taken]})
        case "a":
            more = {"usage": {"total_tokens": 100 * int("".join(filter(str.isdigit, name)) or 0)}}
    role = "assistant" if kind in "ackf" else "user"
    record = {"timestamp": STAMP.format(int(at) if at else minute), "id": name, "role": role, "blocks": blocks, **more}
    return dump(record)


def dump(value) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def names(entries) -> str:
    return " ".join(entry.id for entry in entries)


class Naive:
    """Reads a transcript whole, with the standard library alone, following the contract's sentences one by one."""

    def __init__(self, data: bytes) -> None:
        self.lines, offset = [], 0
        for piece in data.split(b"\n"):
            ended = offset + len(piece) < len(data)
            try:
                value = json.loads(piece.decode())
            except (ValueError, RecursionError):
                value = None
            value = value if isinstance(value, dict) else None
            if ended or value is not None:
                self.lines.append((offset, value, piece))
            offset += len(piece) + 1
        self.data = data
        self.visible = self._visible()

    def _visible(self):
        shown = []
        for offset, value, piece in self.lines:
            if value is None:
                continue
            if value.get("type") == "rollback":
                first = [i for i, (_, other, _) in enumerate(shown) if other.get("id") == value["messageId"]]
                if first:
                    del shown[first[0] :]
            elif "blocks" in value:
                shown.append((offset, value, piece))
        result = []
        for item in shown:
            if compact(item[1]) and result and compact(result[-1][1]):
                if item[1]["timestamp"] >= result[-1][1]["timestamp"]:
                    result[-1] = item
            else:
                result.append(item)
        return result

    def prompts(self):
        first = {}
        for offset, value, _ in self.visible:
            if prompt(value):
                first.setdefault(value["id"], offset)
        return list(first.items())

    def compactions(self):
        return [offset for offset, value, _ in self.visible if compact(value)]

    def title(self):
        found = [value["customTitle"] for _, value, _ in self.lines if value and value.get("type") == "custom-title"]
        return found[-1] if found else None

    def header(self):
        found = [offset for offset, value, _ in self.lines if value and value.get("type") == "metadata"]
        return found[0] if found else None

    def opaque(self):
        return [offset for offset, value, piece in self.lines if value is None and piece.strip()]

    def history(self):
        result, segment = [], []
        for _, value, piece in self.visible:
            if compact(value):
                result, segment = result + segment, []
            places = [i for i, (name, _) in enumerate(segment) if name == value["id"]]
            if places:
                segment[places[0]] = (value["id"], piece)
            else:
                segment.append((value["id"], piece))
        return [piece for _, piece in result + segment]

    def view(self):
        return [piece for _, piece in self._view(len(self.visible))]

    def _view(self, end):
        """The model's view of the first ``end`` visible messages, from the last compaction among them, recursively."""
        last = max((i for i in range(end) if compact(self.visible[i][1])), default=0)
        view = []
        after = self.visible[last][1].get("after") if end else None
        if after:
            before = self._view(last)
            place = [i for i, (name, _) in enumerate(before) if name == after]
            view = before[: place[0] + 1] if place else []
        segment = []
        for _, value, piece in self.visible[last:end]:
            places = [i for i, (name, _) in enumerate(segment) if name == value["id"]]
            if places:
                segment[places[0]] = (value["id"], piece)
            else:
                segment.append((value["id"], piece))
        return view + segment


def compact(value) -> bool:
    return any(block["type"] in {"compact", "compress"} for block in value["blocks"])


def prompt(value) -> bool:
    if value["role"] != "user" or value.get("isMeta"):
        return False
    return not any(
        block["type"] in {"bang", "task_notification"} or block.get("source") == "hook" for block in value["blocks"]
    )
