"""The clients: `Client`, and `AsyncClient` for asyncio."""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, TypeVar, Union

import httpx

from . import _operations as operations
from . import models
from ._base import AsyncConnection, Connection, _Authorization, call
from ._changes import AsyncChanges, Changes
from ._evidence import AsyncEvidence, Evidence
from ._exchange import RetryPolicy
from ._runs import AsyncConnectors, AsyncRuns, Connectors, Runs

_key_pattern = re.compile(r"postern_[0-9A-Za-z]{49}")
_token_pattern = re.compile(r"[A-Za-z0-9._~+/-]+=*")
_AsyncSelf = TypeVar("_AsyncSelf", bound="AsyncClient")
_Self = TypeVar("_Self", bound="Client")
_whoami: tuple[str, str, Dict[str, Any]] = ("GET", "/api/v1/whoami", {})

Token = Union[str, Callable[[], str]]


def _authorization_of(key: str | None, token: Token | None) -> httpx.Auth:
    if (key is None) == (token is None):
        raise ValueError("pass either a key or a token")
    if token is not None:
        return _Authorization(lambda: f"Bearer {_checked(token() if callable(token) else token)}")
    if not isinstance(key, str) or _key_pattern.fullmatch(key) is None:
        raise ValueError("key must be a whole Postern API key: postern_ and 49 characters")
    return _Authorization(lambda: f"ApiKey {key}")


def _checked(token: str) -> str:
    if not isinstance(token, str) or _token_pattern.fullmatch(token) is None:
        raise ValueError("token must be an access token")
    return token


class _Named:
    _url: str

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._url}>"


class Client(_Named):
    """The API for one key. Threads can share it. Close it, or use it as a context manager.

    `url` is the address of the gateway; the key is sent only there. `timeout` is in seconds. `retries` is the number of
    retries, and `max_wait` the longest `Retry-After` in seconds that the client waits for. People pass `token`, an
    access token or a function that returns one, instead of a key. `transport` replaces that of httpx.
    """

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        token: Token | None = None,
        timeout: float = 30.0,
        retries: int = 3,
        max_wait: float = 60.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        authorization = _authorization_of(key, token)
        http = httpx.Client(timeout=timeout, transport=transport)
        connection = Connection(url, authorization, RetryPolicy(retries, max_wait), http)
        self._connection = connection
        self._url = connection.address.base
        self.findings = operations.Findings(connection)
        self.recommendations = operations.Recommendations(connection)
        self.action_plans = operations.ActionPlans(connection)
        self.remediation_log = operations.RemediationLog(connection)
        self.entities = operations.Entities(connection)
        self.hierarchies = operations.Hierarchies(connection)
        self.test_procedures = operations.TestProcedures(connection)
        self.people = operations.People(connection)
        self.connectors = Connectors(connection)
        self.runs = Runs(connection)
        self.push = operations.Pushes(connection)
        self.evidence = Evidence(connection)

    def whoami(self) -> models.Principal:
        """Read the caller and its scopes."""
        return self._connection.run(call(self._connection.policy, *_whoami))

    def changes(self, since: str | None = None, *, limit: int | None = None) -> Changes:
        """Changes since a position, `now`, or the oldest stored change."""
        return Changes(self._connection, since, limit)

    def close(self) -> None:
        self._connection.http.close()

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, *_error: Any) -> None:
        self.close()


class AsyncClient(_Named):
    """The API for one key, for asyncio. Close it, or use it as an asynchronous context manager. Takes what Client takes."""

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        token: Token | None = None,
        timeout: float = 30.0,
        retries: int = 3,
        max_wait: float = 60.0,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        authorization = _authorization_of(key, token)
        http = httpx.AsyncClient(timeout=timeout, transport=transport)
        connection = AsyncConnection(url, authorization, RetryPolicy(retries, max_wait), http)
        self._connection = connection
        self._url = connection.address.base
        self.findings = operations.AsyncFindings(connection)
        self.recommendations = operations.AsyncRecommendations(connection)
        self.action_plans = operations.AsyncActionPlans(connection)
        self.remediation_log = operations.AsyncRemediationLog(connection)
        self.entities = operations.AsyncEntities(connection)
        self.hierarchies = operations.AsyncHierarchies(connection)
        self.test_procedures = operations.AsyncTestProcedures(connection)
        self.people = operations.AsyncPeople(connection)
        self.connectors = AsyncConnectors(connection)
        self.runs = AsyncRuns(connection)
        self.push = operations.AsyncPushes(connection)
        self.evidence = AsyncEvidence(connection)

    async def whoami(self) -> models.Principal:
        """Read the caller and its scopes."""
        return await self._connection.run(call(self._connection.policy, *_whoami))

    def changes(self, since: str | None = None, *, limit: int | None = None) -> AsyncChanges:
        """Changes since a position, `now`, or the oldest stored change."""
        return AsyncChanges(self._connection, since, limit)

    async def close(self) -> None:
        await self._connection.http.aclose()

    async def __aenter__(self: _AsyncSelf) -> _AsyncSelf:
        return self

    async def __aexit__(self, *_error: Any) -> None:
        await self.close()
