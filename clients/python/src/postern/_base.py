"""What all operations share: connections that perform steps, and resources that call operations."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any, AsyncIterator, Callable, Dict, Generator, Iterator, Mapping

import httpx

from ._address import Address, Target, fill_path, id_of, query_of
from ._errors import PreconditionFailedError, UnexpectedResponseError
from ._exchange import (
    Failure,
    Reply,
    Request,
    RetryPolicy,
    Step,
    Steps,
    T,
    Wait,
    exchange,
    json_body,
    new_idempotency_key,
)
from ._pages import AsyncPages, Pages

__all__ = ["Target"]

_max_edits = 5
_long_read = 300.0
"""Seconds. The API may scan a large file before it answers."""


class Document(Dict[str, Any]):
    """A resource that knows the entity tag with which it was read."""

    etag: str | None = None


def etag_of(resource: Mapping[str, Any]) -> str | None:
    """Returns the entity tag of a resource for `if_match`, or None for items of a list."""
    return getattr(resource, "etag", None)


class _Authorization(httpx.Auth):
    """Adds the key at the last moment, so that nothing that can be printed holds it."""

    def __init__(self, header: Callable[[], str]) -> None:
        self._header = header

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        request.headers["authorization"] = self._header()
        yield request

    def __repr__(self) -> str:
        return "<Authorization>"


class _Connection:
    def __init__(self, url: str, authorization: httpx.Auth, policy: RetryPolicy) -> None:
        self.address = Address(url)
        self.policy = policy
        self._authorization = authorization

    def _arguments(self, request: Request, timeout: httpx.Timeout, content: Any) -> Dict[str, Any]:
        headers = {"accept": "application/json", **request.headers}
        if request.body is not None:
            headers["content-length"] = str(request.body.size)
        return {
            "method": request.method,
            "url": self.address.base + request.target,
            "headers": headers,
            "content": content,
            "auth": self._authorization,
            # The API never redirects, and another server must not get the key.
            "follow_redirects": False,
            "timeout": _with_longer_reads(timeout) if request.is_long else timeout,
        }


def _with_longer_reads(timeout: httpx.Timeout) -> httpx.Timeout:
    read = None if timeout.read is None else max(timeout.read, _long_read)
    return httpx.Timeout(connect=timeout.connect, read=read, write=timeout.write, pool=timeout.pool)


def _reply_of(response: httpx.Response) -> Reply:
    return Reply(response.status_code, {name.lower(): value for name, value in response.headers.items()}, response.content)


def _failure_of(error: Exception) -> Failure:
    reason = str(error) or "no response"
    return Failure(f"The request failed: {type(error).__name__}: {reason}")


class Connection(_Connection):
    def __init__(self, url: str, authorization: httpx.Auth, policy: RetryPolicy, http: httpx.Client) -> None:
        super().__init__(url, authorization, policy)
        self.http = http

    def run(self, steps: Steps[T]) -> T:
        """Performs the steps and returns their result."""
        result: Any = None
        while True:
            try:
                step = steps.send(result)
            except StopIteration as stop:
                return stop.value
            result = self._perform(step)

    def _perform(self, step: Step) -> Any:
        if isinstance(step, Wait):
            return time.sleep(step.seconds)
        if not isinstance(step, Request):
            return step.run()
        content = None if step.body is None else step.body.chunks()
        try:
            return _reply_of(self.http.request(**self._arguments(step, self.http.timeout, content)))
        except httpx.HTTPError as error:
            return _failure_of(error)


class AsyncConnection(_Connection):
    def __init__(self, url: str, authorization: httpx.Auth, policy: RetryPolicy, http: httpx.AsyncClient) -> None:
        super().__init__(url, authorization, policy)
        self.http = http

    async def run(self, steps: Steps[T]) -> T:
        """Performs the steps and returns their result."""
        result: Any = None
        while True:
            try:
                step = steps.send(result)
            except StopIteration as stop:
                return stop.value
            result = await self._perform(step)

    async def _perform(self, step: Step) -> Any:
        if isinstance(step, Wait):
            return await asyncio.sleep(step.seconds)
        if not isinstance(step, Request):
            return await asyncio.to_thread(step.run)
        content = None if step.body is None else _read_in_threads(step.body.chunks())
        try:
            return _reply_of(await self.http.request(**self._arguments(step, self.http.timeout, content)))
        except httpx.HTTPError as error:
            return _failure_of(error)


async def _read_in_threads(chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
    while True:
        chunk = await asyncio.to_thread(next, chunks, None)
        if chunk is None:
            return
        yield chunk


def call(
    policy: RetryPolicy,
    method: str,
    path: str,
    names: Mapping[str, Target],
    *,
    query: Mapping[str, Any] | None = None,
    body: Any = None,
    if_match: str | None = None,
    idempotency_key: str | None = None,
) -> Steps[Any]:
    """Calls an operation and returns its answer, or None without one."""
    headers: Dict[str, str] = {}
    tag = if_match or next((etag_of(target) for target in names.values() if not isinstance(target, str)), None)
    if method == "PATCH" and tag is None and names:
        raise ValueError("pass a resource that this client read, or its entity tag as if_match")
    if method != "GET" and tag is not None:
        headers["if-match"] = tag
    if method == "POST":
        headers["idempotency-key"] = idempotency_key or new_idempotency_key()
    if body is not None:
        headers["content-type"] = "application/merge-patch+json" if method == "PATCH" else "application/json"
    target = fill_path(path, names) + query_of(query or {})
    request = Request(method, target, headers, None if body is None else json_body(body))
    return (yield from answer(request, policy))


def answer(request: Request, policy: RetryPolicy) -> Steps[Any]:
    return read_json((yield from exchange(request, policy)))


def read_json(reply: Reply) -> Any:
    if not reply.content:
        return None
    try:
        value = json.loads(reply.content)
    except ValueError:
        value = reply
    if value is reply:
        raise UnexpectedResponseError(f"The response {reply.status} is not JSON. Check the address of the API.")
    if not isinstance(value, dict):
        return value
    document = Document(value)
    document.etag = reply.headers.get("etag")
    return document


def edit(policy: RetryPolicy, path: str, target: Target, change: Callable[[Any], Any]) -> Steps[Any]:
    edits_left = _max_edits
    while True:
        current = yield from call(policy, "GET", path, {"id": id_of(target)})
        patch = change(current)
        if patch is None:
            return current
        try:
            return (yield from call(policy, "PATCH", path, {"id": id_of(target)}, body=patch, if_match=etag_of(current)))
        except PreconditionFailedError:
            edits_left -= 1
            if edits_left == 0:
                raise


class Resource:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def _call(self, method: str, path: str, names: Mapping[str, Target], **inputs: Any) -> Any:
        return self._connection.run(call(self._connection.policy, method, path, names, **inputs))

    def _pages(self, path: str, names: Mapping[str, Target], query: Mapping[str, Any] | None = None) -> Pages[Any]:
        return Pages(self._connection, fill_path(path, names) + query_of(query or {}))

    def _edit(self, path: str, target: Target, change: Callable[[Any], Any]) -> Any:
        return self._connection.run(edit(self._connection.policy, path, target, change))


class AsyncResource:
    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def _call(self, method: str, path: str, names: Mapping[str, Target], **inputs: Any) -> Any:
        return await self._connection.run(call(self._connection.policy, method, path, names, **inputs))

    def _pages(self, path: str, names: Mapping[str, Target], query: Mapping[str, Any] | None = None) -> AsyncPages[Any]:
        return AsyncPages(self._connection, fill_path(path, names) + query_of(query or {}))

    async def _edit(self, path: str, target: Target, change: Callable[[Any], Any]) -> Any:
        return await self._connection.run(edit(self._connection.policy, path, target, change))
