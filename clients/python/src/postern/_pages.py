"""Lists, read page by page as needed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, AsyncIterator, Generic, Iterator, List, TypeVar

from ._address import next_link
from ._errors import UnexpectedResponseError
from ._exchange import Reply, Request, Steps, exchange

if TYPE_CHECKING:
    from ._base import AsyncConnection, Connection

Item = TypeVar("Item")


def _read_list(reply: Reply) -> List[Any]:
    try:
        items = json.loads(reply.content)
    except ValueError:
        items = None
    if not isinstance(items, list):
        raise UnexpectedResponseError(f"The response {reply.status} is not a list. Check the address of the API.")
    return items


def _read_page(connection: Connection | AsyncConnection, target: str) -> Steps[tuple[List[Any], str | None, str | None]]:
    """Returns the items of a page, the target of the next one, and the value of the next `updated_since`."""
    reply = yield from exchange(Request("GET", target), connection.policy)
    link = next_link(reply.headers.get("link"))
    following = None if link is None else connection.address.target_of(link)
    return _read_list(reply), following, reply.headers.get("postern-next-updated-since")


def _count(connection: Connection | AsyncConnection, target: str) -> Steps[int]:
    separator = "&" if "?" in target else "?"
    reply = yield from exchange(Request("GET", f"{target}{separator}count=true"), connection.policy)
    total = reply.headers.get("x-total-count", "")
    if not total.isdigit():
        raise UnexpectedResponseError("The response has no total count.")
    return int(total)


class Pages(Generic[Item]):
    """`for item in pages` requests pages as needed. Each loop starts with the first page."""

    def __init__(self, connection: Connection, target: str) -> None:
        self._connection = connection
        self._target = target
        self.next_updated_since: str | None = None
        """Once a page was read: send it as `updated_since` the next time. None if the list does not take it."""

    def __iter__(self) -> Iterator[Item]:
        for page in self.pages():
            yield from page

    def pages(self) -> Iterator[List[Item]]:
        """Yields whole pages, which can be empty."""
        target: str | None = self._target
        while target is not None:
            items, target, self.next_updated_since = self._connection.run(_read_page(self._connection, target))
            yield items

    def all(self) -> List[Item]:
        return list(self)

    def count(self) -> int:
        """Asks the API how many items the list has."""
        return self._connection.run(_count(self._connection, self._target))


class AsyncPages(Generic[Item]):
    """`async for item in pages` requests pages as needed. Each loop starts with the first page."""

    def __init__(self, connection: AsyncConnection, target: str) -> None:
        self._connection = connection
        self._target = target
        self.next_updated_since: str | None = None

    async def __aiter__(self) -> AsyncIterator[Item]:
        async for page in self.pages():
            for item in page:
                yield item

    async def pages(self) -> AsyncIterator[List[Item]]:
        """Yields whole pages, which can be empty."""
        target: str | None = self._target
        while target is not None:
            items, target, self.next_updated_since = await self._connection.run(_read_page(self._connection, target))
            yield items

    async def all(self) -> List[Item]:
        return [item async for item in self]

    async def count(self) -> int:
        """Asks the API how many items the list has."""
        return await self._connection.run(_count(self._connection, self._target))
