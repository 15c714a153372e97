"""Requests and retries, without I/O: generators yield steps, and a client performs them."""

from __future__ import annotations

import json
import random
import uuid
from dataclasses import dataclass, field
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any, Callable, Dict, Generator, Mapping, TypeVar, Union

from ._content import Body, Part
from ._errors import ConnectionFailedError, ProblemError, problem_of

T = TypeVar("T")

_first_wait = 0.25
_longest_backoff = 10.0
_busy = frozenset({429, 502, 503, 504})


@dataclass(frozen=True)
class Request:
    method: str
    target: str
    """Path and query below the address of the API."""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Body | None = None
    is_long: bool = False
    """The answer may take minutes."""


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    """With names in lower case."""
    content: bytes


@dataclass(frozen=True)
class Failure:
    """A request without a response. A text, because the errors of httpx hold the request with the key."""

    reason: str


@dataclass(frozen=True)
class Wait:
    seconds: float


@dataclass(frozen=True)
class Work:
    """Reads files or computes, which would block an event loop."""

    run: Callable[[], Any]


Step = Union[Request, Wait, Work]
Steps = Generator[Step, Any, T]


@dataclass(frozen=True)
class RetryPolicy:
    retries: int = 3
    max_wait: float = 60.0
    """Seconds. If Retry-After exceeds it, the error is raised at once."""

    def delay(self, retry: int, retry_after: float | None) -> float | None:
        """Returns the seconds before a retry (from 1), half of a backoff at random. None: do not retry."""
        if retry > self.retries:
            return None
        if retry_after is not None:
            return None if retry_after > self.max_wait else retry_after + random.random() * min(1.0, retry_after)
        backoff = min(_first_wait * 2 ** (retry - 1), _longest_backoff, self.max_wait)
        return backoff * (0.5 + random.random() / 2)


def exchange(request: Request, policy: RetryPolicy) -> Steps[Reply]:
    """Sends a request, and again if that cannot change anything twice. Raises ProblemError or ConnectionFailedError."""
    retry = 0
    while True:
        reply = yield request
        error: ProblemError | ConnectionFailedError
        retry_after = None
        if isinstance(reply, Failure):
            error = ConnectionFailedError(reply.reason)
            is_safe = _is_repeatable(request)
        elif reply.status < 300 or reply.status == 304:
            return reply
        else:
            error = read_problem(reply)
            retry_after = error.retry_after
            is_safe = _is_worth_a_retry(error, request)
        retry += 1
        delay = policy.delay(retry, retry_after) if is_safe else None
        if delay is None:
            raise error
        yield Wait(delay)


def _is_repeatable(request: Request) -> bool:
    """Whether nothing happens twice if the first request arrived."""
    return request.method in ("GET", "HEAD") or (request.method == "POST" and "idempotency-key" in request.headers)


def _is_worth_a_retry(problem: ProblemError, request: Request) -> bool:
    if _is_repeatable(request):
        return problem.status in _busy or problem.code == "request_in_progress"
    # The API sends 429 before it processes a request.
    return problem.status == 429


def new_idempotency_key() -> str:
    return str(uuid.uuid4())


def json_body(value: Any) -> Body:
    return Body([Part(json.dumps(value, ensure_ascii=False, allow_nan=False).encode())])


def read_problem(reply: Reply) -> ProblemError:
    document: Dict[str, Any] = {
        "type": "about:blank",
        "title": f"The response {reply.status} is not from Postern",
        "status": reply.status,
        "code": "unknown",
        "instance": reply.headers.get("x-request-id", ""),
    }
    if reply.headers.get("content-type", "").startswith("application/problem+json"):
        try:
            read = json.loads(reply.content)
        except ValueError:
            read = None
        if isinstance(read, dict) and all(type(read.get(name)) is type(document[name]) for name in document):
            document = read
    return problem_of(document, _seconds_of(reply.headers.get("retry-after")))


def _seconds_of(retry_after: str | None) -> float | None:
    """Returns the seconds of Retry-After, which has seconds or a date (RFC 9110, section 10.2.3)."""
    if retry_after is None:
        return None
    if retry_after.isascii() and retry_after.isdigit():
        return float(retry_after)
    try:
        until = parsedate_to_datetime(retry_after)
    except ValueError:
        return None
    if until.tzinfo is None:
        until = until.replace(tzinfo=timezone.utc)
    return max(0.0, (until - datetime.now(timezone.utc)).total_seconds())
