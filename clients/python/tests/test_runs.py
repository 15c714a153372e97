"""Runs of connectors, against an API in memory."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from api import KEY, URL, Api, ok

import postern


def run(status: str) -> httpx.Response:
    return ok({"id": "r-1", "status": status, "diff_hash": "d"})


def test_a_run_is_not_waited_for_beyond_its_time() -> None:
    api = Api(run("fetching"))
    with pytest.raises(TimeoutError, match="The run r-1 is fetching after 0 seconds"):
        api.client().runs.wait("r-1", timeout=0)


@pytest.mark.parametrize("status", ["needs_approval", "succeeded", "partial", "failed", "cancelled"])
def test_a_run_is_read_until_it_rests(status: str) -> None:
    api = Api(run("queued"), run("applying"), run(status))
    assert api.client().runs.wait({"id": "r-1"}, interval=0)["status"] == status
    assert [request.url.path for request in api.requests] == ["/api/v1/sync-runs/r-1"] * 3


def test_a_run_is_started_with_a_file_or_without_one() -> None:
    api = Api(run("queued"), run("queued"))
    client = api.client()
    client.connectors.run("key:hr", b"id,name\n1,Ada\n", mode="dry_run")
    client.connectors.run("key:hr", idempotency_key="once")
    assert [request.url.raw_path for request in api.requests] == [
        b"/api/v1/connectors/key:hr/runs?mode=dry_run",
        b"/api/v1/connectors/key:hr/runs",
    ]
    assert api.bodies == [b"id,name\n1,Ada\n", b""]
    assert [request.headers.get("content-type") for request in api.requests] == ["text/csv", None]
    assert api.requests[0].headers["idempotency-key"] != api.requests[1].headers["idempotency-key"] == "once"


def test_asyncio_starts_a_run_and_waits_for_it() -> None:
    api = Api(run("queued"), run("succeeded"))

    async def start() -> str:
        async with postern.AsyncClient(URL, KEY, transport=httpx.MockTransport(api.handle)) as client:
            return (await client.runs.wait(await client.connectors.run("key:hr")))["status"]

    assert asyncio.run(start()) == "succeeded"
