"""Images in the blocks of a message, however their writer spelled them. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sessions.transcript.messages import Block

_EMBEDDED_CHARACTERS = 8_000_000  # of base64: 6 MB of image
_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)?(?:;[\w=.+-]+)*?;base64,", re.ASCII)
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/bmp"})
_TYPES = ("mediaType", "media_type", "mimeType", "mime_type")
_PARTS = ("source", "image_url", "imageUrl", "imageUrls", "images", "url", "path", "filePath", "file_path")
_DEPTH = 4


class Image(NamedTuple):
    """An image: its base64 text where the transcript holds it, else where it is said to lie; or neither."""

    media_type: str | None
    data: str | None
    address: str | None

    @property
    def size_bytes(self) -> int | None:
        """How large it is; None where the transcript does not hold it."""
        return None if self.data is None else len(self.data) * 3 // 4 - self.data[-2:].count("=")

    def data_url(self) -> str | None:
        """Return an address that holds the image itself; None where it is none a page should hold.

        Only pictures made of pixels, of bounded size: an SVG is a document, which may have scripts.
        """
        if self.data is None or self.media_type not in _PICTURES or len(self.data) > _EMBEDDED_CHARACTERS:
            return None
        return f"data:{self.media_type};base64,{self.data}" if _BASE64.fullmatch(self.data) else None


def images_of(block: Block) -> Iterator[Image]:
    """Yield the images of a block: of an image block at least one, of a tool call those it returned."""
    extra = block.model_extra or {}
    if block.type == "image":
        found = list(_in_parts(extra, 0))
        yield from found or [Image(None, None, None)]
    elif isinstance(images := extra.get("images"), list):
        yield from _in(images, 1)


def _in(said: object, depth: int) -> Iterator[Image]:
    if isinstance(said, str):
        yield _at(said)
    elif isinstance(said, list) and depth < _DEPTH:
        for each in said:
            yield from _in(each, depth + 1)
    elif isinstance(said, dict) and depth < _DEPTH:
        yield from _in_parts(said, depth + 1)


def _in_parts(said: Mapping[str, object], depth: int) -> Iterator[Image]:
    media_type = next((value for key in _TYPES if isinstance(value := said.get(key), str)), None)
    data = said.get("data")
    if isinstance(data, str) and data:
        found = _at(data)
        yield found if found.data is not None else Image(media_type, "".join(data.split()), None)
        return
    for key in _PARTS:
        if said.get(key):
            yield from _in(said[key], depth)


def _at(address: str) -> Image:
    found = _DATA_URL.match(address)
    if found is None:
        return Image(None, None, address)
    return Image(found[1] or None, "".join(address[found.end() :].split()), None)
