"""Messages as a host gives and gets them: pydantic models that keep what they do not know. Imported late.

Spellings of the format are aliases here; attributes are snake_case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Literal, Self, overload

from pydantic import BaseModel, ConfigDict, Field, InstanceOf, PrivateAttr, TypeAdapter, ValidationError

from sessions import clock, ids
from sessions.errors import RequestError
from sessions.transcript import codec
from sessions.transcript.entry import Entry

Text = InstanceOf[str]  # pydantic's own str refuses lone surrogates, which tools do produce


class _Model(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True, populate_by_name=True)


class _KnownBlock(_Model):
    def model_post_init(self, _: object, /) -> None:
        self.__pydantic_fields_set__.add("type")  # given or not, it is written


class TextBlock(_KnownBlock):
    """Text of the user or the model; ``source="hook"``: a hook said it."""

    type: Literal["text"] = "text"
    content: Text
    custom_command_content: Text | None = Field(default=None, alias="customCommandContent")
    source: Text | None = None


class ReasoningBlock(_KnownBlock):
    """What the model thought."""

    type: Literal["reasoning"] = "reasoning"
    content: Text


class ToolBlock(_KnownBlock):
    """A tool call and, once it ended, its result. ``parameters`` is a JSON string."""

    type: Literal["tool"] = "tool"
    id: Text
    name: Text
    parameters: Text
    stage: Literal["start", "streaming", "running", "end"]
    result: Text | None = None
    success: bool | None = None
    error: Text | None = None
    background_task_id: Text | None = Field(default=None, alias="backgroundTaskId")


class BangBlock(_KnownBlock):
    """A shell command the user ran."""

    type: Literal["bang"] = "bang"
    command: Text
    output: Text
    exit_code: int | None = Field(alias="exitCode")


class CompactBlock(_KnownBlock):
    """The summary that replaces the messages in front of it."""

    type: Literal["compact", "compress"] = "compact"
    content: Text


class TaskNotificationBlock(_KnownBlock):
    """A notice that background work ended."""

    type: Literal["task_notification"] = "task_notification"
    task_id: Text = Field(alias="taskId")
    task_type: Text = Field(alias="taskType")
    status: Literal["completed", "failed", "killed", "aborted"]
    summary: Text
    output_file: Text | None = Field(default=None, alias="outputFile")
    result: Text | None = None


class OtherBlock(_Model):
    """Any other block, and one of a known type that does not hold what that type needs."""

    type: object = None


Known = Annotated[
    TextBlock | ReasoningBlock | ToolBlock | BangBlock | CompactBlock | TaskNotificationBlock,
    Field(discriminator="type"),
]
_KNOWN: TypeAdapter[Known] = TypeAdapter(Known)
_KNOWN_TYPES = ("text", "reasoning", "tool", "bang", "compact", "compress", "task_notification")
_ATTRIBUTES = ("is_meta", "additional_fields")  # spelled so in a file they are unknown keys, and no fields
Block = Annotated[Known | OtherBlock, Field(union_mode="left_to_right")]


class Message(_Model):
    """One message. Immutable; `model_copy` makes a changed one."""

    timestamp: Text | None = None
    id: Text | None = None
    role: Literal["user", "assistant"]
    blocks: tuple[Block, ...] = ()
    usage: dict[str, object] | None = None
    additional_fields: object = Field(default=None, alias="additionalFields")
    is_meta: bool = Field(default=False, alias="isMeta")

    _raw: bytes | None = PrivateAttr(default=None)

    @property
    def text(self) -> str:
        """The texts of the message, or its summary, joined by newlines."""
        return "\n".join(block.content for block in self.blocks if isinstance(block, TextBlock | CompactBlock))

    @classmethod
    def from_entry(cls, entry: Entry) -> Self:
        """Return the message a line holds. Never raises for an entry of kind ``MESSAGE``, however odd."""
        data = {key: value for key, value in (entry.data or {}).items() if key not in _ATTRIBUTES}
        readable = {
            "timestamp": entry.timestamp,
            "id": entry.id,
            "blocks": entry.blocks,
            "usage": data.get("usage") if isinstance(data.get("usage"), dict) else None,
            "isMeta": entry.is_meta,
        }
        message = cls.model_validate({key: readable.get(key, value) for key, value in data.items()})
        message._raw = entry.raw  # noqa: SLF001 - its own class
        return message

    def to_line(self) -> bytes:
        """Return the message as a line without its newline: the bytes it was read from, if it was.

        Raises:
            RequestError: It holds something JSON cannot say.
        """
        if self._raw is not None:
            return self._raw
        try:
            return codec.dumps(self.model_dump(by_alias=True, exclude_unset=True))
        except ValueError as error:
            raise RequestError(f"the message cannot be written: {error}") from error

    def model_copy(self, *, update: Mapping[str, object] | None = None, deep: bool = False) -> Self:
        """Return a copy, with the fields in ``update`` replaced (unchecked, as pydantic does)."""
        copy = super().model_copy(update=update, deep=deep)
        copy._raw = None if update else self._raw  # noqa: SLF001 - its own class
        return copy


class Messages(Sequence[Message]):
    """Messages over lines, immutable; a model is built when its place is first asked for.

    Args:
        entries: The lines, as the file has them.
        seen_as: What a line is shown as; the line itself where nothing is to be said otherwise.
    """

    def __init__(self, entries: Sequence[Entry], *, seen_as: Callable[[Entry], Entry] = lambda entry: entry) -> None:
        self.entries = tuple(entries)
        self._seen_as = seen_as
        self._built: dict[int, Message] = {}

    @property
    def repaired(self) -> int:
        """How many of them are shown otherwise than the file has them."""
        return sum(self._seen_as(entry) is not entry for entry in self.entries)

    def lines(self) -> Iterator[bytes]:
        """Yield each message as a line without its newline, as it is shown."""
        return (self._seen_as(entry).raw for entry in self.entries)

    @overload
    def __getitem__(self, place: int) -> Message: ...
    @overload
    def __getitem__(self, place: slice) -> Messages: ...
    def __getitem__(self, place: int | slice) -> Message | Messages:
        if isinstance(place, slice):
            return Messages(self.entries[place], seen_as=self._seen_as)
        place = range(len(self.entries))[place]
        if place not in self._built:
            self._built[place] = Message.from_entry(self._seen_as(self.entries[place]))
        return self._built[place]

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[Message]:
        return (self[place] for place in range(len(self.entries)))

    def __repr__(self) -> str:
        return f"<{len(self.entries)} messages>"


def user_message(
    text: str,
    *,
    message_id: str | None = None,
    timestamp: str | None = None,
    is_meta: bool = False,
    source: str | None = None,
) -> Message:
    """Return a message of the user.

    Args:
        text: What was typed.
        message_id: Default: a new one.
        timestamp: Default: now.
        is_meta: Whether it is for the model only, and so no prompt.
        source: ``hook`` if a hook said it, and so no prompt.
    """
    block: dict[str, object] = {"type": "text", "content": text}
    if source is not None:
        block["source"] = source
    meta = {"isMeta": True} if is_meta else {}
    return message_of({**_opening(message_id, timestamp), "role": "user", "blocks": [block], **meta})


def assistant_message(
    text: str | None = None,
    *,
    blocks: Sequence[Block | Mapping[str, object]] = (),
    usage: Mapping[str, object] | None = None,
    message_id: str | None = None,
    timestamp: str | None = None,
) -> Message:
    """Return a message of the model: ``text``, if given, in front of ``blocks``.

    Raises:
        RequestError: A block is not an object, or lacks what its type needs.
    """
    said: list[object] = [] if text is None else [{"type": "text", "content": text}]
    reported = {"usage": dict(usage)} if usage is not None else {}
    return message_of({**_opening(message_id, timestamp), "role": "assistant", "blocks": [*said, *blocks], **reported})


def message_of(value: Message | Mapping[str, object]) -> Message:
    """Return ``value`` as a message that can be appended: checked, and with a timestamp and an id.

    Raises:
        RequestError: It is none; the error says where.
    """
    if not isinstance(value, Message | Mapping):
        raise RequestError(f"not a message: {value!r}"[:200])
    try:
        message = value if isinstance(value, Message) else Message.model_validate(dict(value))
        if "blocks" not in message.model_fields_set:
            raise RequestError("not a message: it has no blocks")
        for block in message.blocks:
            if isinstance(block, OtherBlock) and block.type in _KNOWN_TYPES:
                _KNOWN.validate_python(block.model_dump())  # says what it lacks
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(step) for step in first["loc"])
        raise RequestError(f"not a message: {where}: {first['msg']}") from error
    if message.id and message.timestamp:
        return message
    opening = _opening(message.id, message.timestamp)
    return Message.model_validate({**opening, **message.model_dump(by_alias=True, exclude_unset=True), **opening})


def _opening(message_id: str | None, timestamp: str | None) -> dict[str, object]:
    return {"timestamp": timestamp or clock.timestamp(), "id": message_id or ids.new_message_id()}
