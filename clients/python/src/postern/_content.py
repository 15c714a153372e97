"""Bodies that can be sent again: bytes, and files that stay on disk."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import BinaryIO, Iterator, Sequence, Union

Content = Union[bytes, bytearray, memoryview, "os.PathLike[str]", BinaryIO]
"""Bytes, a path, or an open binary file that can be rewound."""

_chunk_bytes = 256 * 1024


class Part:
    """A range of bytes of a content."""

    def __init__(self, content: Content) -> None:
        self._file: BinaryIO | None = None
        self._path: Path | None = None
        self._bytes = b""
        self._start = 0
        if isinstance(content, (bytes, bytearray, memoryview)):
            self._bytes = bytes(content)
            self.size = len(self._bytes)
        elif isinstance(content, os.PathLike):
            self._path = Path(content)
            self.size = self._path.stat().st_size
        elif hasattr(content, "seekable") and content.seekable():
            self._file = content
            self._start = content.tell()
            self.size = content.seek(0, os.SEEK_END) - self._start
            content.seek(self._start)
        else:
            raise TypeError("content must be bytes, a path, or an open binary file that can be rewound")

    def read(self, offset: int, size: int) -> bytes:
        return b"".join(self.chunks(offset, size))

    def chunks(self, offset: int = 0, size: int | None = None) -> Iterator[bytes]:
        """Yields the bytes from `offset`, at most `size`. Raises OSError if the file has become shorter."""
        left = self.size - offset if size is None else min(size, self.size - offset)
        if self._path is not None:
            with self._path.open("rb") as file:
                yield from _read(file, offset, left)
        elif self._file is not None:
            yield from _read(self._file, self._start + offset, left)
        elif left > 0:
            yield self._bytes[offset : offset + left]

    def sha256(self) -> bytes:
        digest = hashlib.sha256()
        for chunk in self.chunks():
            digest.update(chunk)
        return digest.digest()


def _read(file: BinaryIO, offset: int, left: int) -> Iterator[bytes]:
    file.seek(offset)
    while left > 0:
        chunk = file.read(min(left, _chunk_bytes))
        if not chunk:
            raise OSError("the file became shorter while it was read")
        left -= len(chunk)
        yield chunk


class Body:
    """Several parts in a row. Every attempt sends the same bytes."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = parts
        self.size = sum(part.size for part in parts)

    def chunks(self) -> Iterator[bytes]:
        for part in self._parts:
            yield from part.chunks()


def name_of(content: Content) -> str | None:
    """Returns the name of a file, if it has one."""
    if isinstance(content, os.PathLike):
        return Path(content).name
    name = getattr(content, "name", None)
    return Path(name).name if isinstance(name, str) else None
