"""The feed of changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, AsyncIterator, Generator, Iterator, List

from . import models
from ._address import query_of
from ._errors import UnexpectedResponseError
from ._exchange import Request, Steps, exchange
from ._pages import _read_list

if TYPE_CHECKING:
    from ._base import AsyncConnection, Connection

_path = "/api/v1/changes"


@dataclass(frozen=True)
class ChangesPage:
    changes: List[models.Change]
    position: str
    """The position after these changes. Store it with them."""


def _read(connection: Connection | AsyncConnection, since: str | None, limit: int | None) -> Steps[ChangesPage]:
    target = _path + query_of({"since": since, "limit": limit})
    reply = yield from exchange(Request("GET", target), connection.policy)
    position = reply.headers.get("postern-next-since")
    if position is None:
        raise UnexpectedResponseError("The response has no next position in the feed.")
    return ChangesPage(_read_list(reply), position)


def _follow(since: str | None) -> Generator[str | None, ChangesPage, None]:
    """Yields positions to read until there are no new changes."""
    before = since
    while True:
        page = yield before
        # An empty page with a new position skipped changes that the key cannot read.
        if not page.changes and (before == "now" or page.position == before):
            return
        before = page.position


class _Feed:
    def __init__(self, connection: Any, since: str | None, limit: int | None) -> None:
        self._connection = connection
        self._limit = limit
        self.position = since
        """Where to continue. It moves after all changes of a page were taken, so none is lost if a loop ends early."""


class Changes(_Feed):
    """`for change in changes` yields what is new and ends. Then store `position` for the next time."""

    def __iter__(self) -> Iterator[models.Change]:
        for page in self.pages():
            yield from page.changes

    def pages(self) -> Iterator[ChangesPage]:
        """Yields pages that have changes."""
        positions = _follow(self.position)
        since = next(positions)
        while True:
            page: ChangesPage = self._connection.run(_read(self._connection, since, self._limit))
            if page.changes:
                yield page
            self.position = page.position
            try:
                since = positions.send(page)
            except StopIteration:
                return


class AsyncChanges(_Feed):
    """`async for change in changes` yields what is new and ends. Then store `position` for the next time."""

    async def __aiter__(self) -> AsyncIterator[models.Change]:
        async for page in self.pages():
            for change in page.changes:
                yield change

    async def pages(self) -> AsyncIterator[ChangesPage]:
        """Yields pages that have changes."""
        positions = _follow(self.position)
        since = next(positions)
        while True:
            page: ChangesPage = await self._connection.run(_read(self._connection, since, self._limit))
            if page.changes:
                yield page
            self.position = page.position
            try:
                since = positions.send(page)
            except StopIteration:
                return
