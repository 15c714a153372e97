from __future__ import annotations

import asyncio
from typing import List

import httpx
import pytest
from api import KEY, URL, Answer, Api, ok, problem

from postern import AsyncClient, ConnectionFailedError, ProblemError, RateLimitedError, ServerError, models

NEW: models.CreateFinding = {"title": "Access reviews are late", "condition": "Seen.", "severity": "low"}
BROKEN = httpx.ReadError("connection reset")


def busy(seconds: str | None = None) -> httpx.Response:
    return problem(503, "service_unavailable", {} if seconds is None else {"retry-after": seconds})


def test_a_read_is_repeated_after_retry_after_and_a_random_part(waits: List[float]) -> None:
    api = Api(busy("7"), problem(429, "too_many_requests", {"retry-after": "2"}), ok({"label": "BI"}))
    assert api.client().whoami()["label"] == "BI"
    assert 7 <= waits[0] <= 8 and 2 <= waits[1] <= 3


def test_waits_without_retry_after_double_and_half_of_them_is_random(waits: List[float]) -> None:
    with pytest.raises(ServerError):
        Api(*[busy() for _ in range(4)]).client().whoami()
    assert [0.125 * 2**n <= wait < 0.25 * 2**n for n, wait in enumerate(waits)] == [True] * 3


def test_a_retry_after_beyond_the_limit_is_an_error_at_once(waits: List[float]) -> None:
    with pytest.raises(RateLimitedError) as caught:
        Api(problem(429, "too_many_requests", {"retry-after": "61"})).client().whoami()
    assert caught.value.retry_after == 61
    assert waits == []


def test_a_creation_keeps_its_idempotency_key_and_its_bytes_over_retries() -> None:
    api = Api(BROKEN, busy(), problem(409, "request_in_progress"), ok({"id": "1"}), ok({"id": "2"}))
    client = api.client()
    client.findings.create(NEW)
    client.findings.create(NEW)
    keys = [request.headers["idempotency-key"] for request in api.requests]
    assert len(set(keys[:4])) == 1
    assert keys[4] != keys[0]
    assert len(set(api.bodies)) == 1


def test_an_idempotency_key_can_be_given() -> None:
    api = Api(ok({"id": "1"}))
    api.client().findings.create(NEW, idempotency_key="mine")
    assert api.requests[0].headers["idempotency-key"] == "mine"


@pytest.mark.parametrize("answer", [BROKEN, busy(), problem(502, "bad_gateway"), problem(504, "gateway_timeout")])
def test_a_change_without_idempotency_key_is_not_repeated_if_it_may_have_happened(
    answer: Answer, waits: List[float]
) -> None:
    api = Api(answer, ok({}))
    with pytest.raises((ProblemError, ConnectionFailedError)):
        api.client().findings.update("1", {"severity": "low"}, if_match='"1"')
    assert len(api.requests) == 1 and waits == []


def test_a_change_is_repeated_after_429_which_comes_before_it_is_processed() -> None:
    api = Api(problem(429, "too_many_requests"), ok({"id": "1"}))
    assert api.client().findings.update("1", {"severity": "low"}, if_match='"1"')["id"] == "1"


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 412, 422, 500, 501])
def test_other_problems_are_not_repeated(status: int, waits: List[float]) -> None:
    with pytest.raises(ProblemError):
        Api(problem(status, "conflict")).client().whoami()
    assert waits == []


def test_retries_can_be_switched_off() -> None:
    with pytest.raises(ConnectionFailedError):
        Api(BROKEN).client(retries=0).whoami()


def test_the_asynchronous_client_retries_in_the_same_way(waits: List[float]) -> None:
    api = Api(busy("3"), BROKEN, ok({"id": "1"}))

    async def create() -> None:
        async with AsyncClient(URL, KEY, transport=httpx.MockTransport(api.handle)) as client:
            assert (await client.findings.create(NEW))["id"] == "1"

    asyncio.run(create())
    assert 3 <= waits[0] <= 4
    assert len({request.headers["idempotency-key"] for request in api.requests}) == 1
