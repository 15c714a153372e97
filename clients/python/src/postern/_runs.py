"""Runs of connectors: started, also with a file, and read until they end."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Mapping

from . import models
from ._address import Target, fill_path, id_of, query_of
from ._base import answer, call
from ._content import Body, Content, Part
from ._exchange import Request, RetryPolicy, Steps, Wait, new_idempotency_key
from ._operations import (
    AsyncConnectorOperations,
    AsyncRunOperations,
    ConnectorOperations,
    RunOperations,
    StartRunQuery,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

_run_path = "/api/v1/connectors/{id}/runs"
_test_path = "/api/v1/connectors/{id}/test"
_csv = "text/csv"
_resting = ("needs_approval", "succeeded", "partial", "failed", "cancelled")


def _send_file(
    policy: RetryPolicy,
    path: str,
    connector: Target,
    content: Content | None,
    content_type: str,
    query: Mapping[str, Any],
    idempotency_key: str | None,
) -> Steps[Any]:
    headers = {"idempotency-key": idempotency_key or new_idempotency_key()}
    body = None
    if content is not None:
        headers["content-type"] = content_type
        body = Body([Part(content)])
    target = fill_path(path, {"id": connector}) + query_of(query)
    return answer(Request("POST", target, headers, body, is_long=body is not None), policy)


def _wait(policy: RetryPolicy, run: Target, timeout: float, interval: float) -> Steps[models.SyncRun]:
    deadline = time.monotonic() + timeout
    while True:
        current: models.SyncRun = yield from call(policy, "GET", "/api/v1/sync-runs/{id}", {"id": id_of(run)})
        if current["status"] in _resting:
            return current
        if time.monotonic() + interval > deadline:
            raise TimeoutError(f"The run {current['id']} is {current['status']} after {timeout:g} seconds.")
        yield Wait(interval)


class Connectors(ConnectorOperations):
    def run(
        self,
        id: Target,
        content: Content | None = None,
        *,
        content_type: str = _csv,
        idempotency_key: str | None = None,
        **query: Unpack[StartRunQuery],
    ) -> models.SyncRun:
        """Starts a run. `content` is the file for a connector whose source is uploaded. Follow it with `runs.wait`."""
        inputs = (id, content, content_type, query, idempotency_key)
        return self._connection.run(_send_file(self._connection.policy, _run_path, *inputs))

    def test(self, id: Target, content: Content | None = None, *, content_type: str = _csv) -> models.ConnectorTest:
        """Returns what up to 20 rows would become. Stores nothing."""
        steps = _send_file(self._connection.policy, _test_path, id, content, content_type, {}, None)
        return self._connection.run(steps)


class AsyncConnectors(AsyncConnectorOperations):
    async def run(
        self,
        id: Target,
        content: Content | None = None,
        *,
        content_type: str = _csv,
        idempotency_key: str | None = None,
        **query: Unpack[StartRunQuery],
    ) -> models.SyncRun:
        """Starts a run. `content` is the file for a connector whose source is uploaded. Follow it with `runs.wait`."""
        inputs = (id, content, content_type, query, idempotency_key)
        return await self._connection.run(_send_file(self._connection.policy, _run_path, *inputs))

    async def test(self, id: Target, content: Content | None = None, *, content_type: str = _csv) -> models.ConnectorTest:
        """Returns what up to 20 rows would become. Stores nothing."""
        steps = _send_file(self._connection.policy, _test_path, id, content, content_type, {}, None)
        return await self._connection.run(steps)


class Runs(RunOperations):
    def wait(self, id: Target, *, timeout: float = 3600.0, interval: float = 2.0) -> models.SyncRun:
        """Reads a run until it ends or needs approval. Times are in seconds. Raises TimeoutError."""
        return self._connection.run(_wait(self._connection.policy, id, timeout, interval))


class AsyncRuns(AsyncRunOperations):
    async def wait(self, id: Target, *, timeout: float = 3600.0, interval: float = 2.0) -> models.SyncRun:
        """Reads a run until it ends or needs approval. Times are in seconds. Raises TimeoutError."""
        return await self._connection.run(_wait(self._connection.policy, id, timeout, interval))
