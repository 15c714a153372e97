"""The errors that the client raises. None of them holds the key or the request."""

from __future__ import annotations

from typing import Any, ClassVar, Dict, List, Mapping


class PosternError(Exception):
    """The base of all errors of this package."""


class ConnectionFailedError(PosternError):
    """The API could not be reached, or the response broke off. The outcome of a change is open."""


class ForeignLinkError(PosternError):
    """A link leads to another origin, which must not get the key."""


class UnexpectedResponseError(PosternError):
    """The response is not what the API promises, so it may come from a proxy."""


class ReceiptError(PosternError):
    """A receipt does not belong to the uploaded file, or its signature is not valid."""


class ProblemError(PosternError):
    """The API rejected the request with a problem document (RFC 9457).

    Use `code` to decide what to do. It is `unknown` if the response is not from Postern.
    """

    statuses: ClassVar[frozenset[int]] = frozenset()

    def __init__(self, document: Mapping[str, Any], retry_after: float | None = None) -> None:
        self.document: Dict[str, Any] = dict(document)
        self.status: int = document["status"]
        self.code: str = document["code"]
        self.title: str = document["title"]
        self.detail: str | None = document.get("detail")
        self.errors: List[Dict[str, Any]] = list(document.get("errors") or [])
        """What is wrong with which member (`pointer`) or parameter (`parameter`)."""
        self.instance: str = document["instance"]
        """The id of the request. Quote it when you ask for help."""
        self.retry_after = retry_after
        """Seconds, if the API said when to try again."""
        super().__init__(f"{self.status} {self.code}: {self.detail or self.title} (request {self.instance})")

    def __reduce__(self) -> Any:
        return type(self), (self.document, self.retry_after)


class InvalidRequestError(ProblemError):
    """400 or 422: the request is not valid. `errors` says where."""

    statuses = frozenset({400, 422})


class AuthenticationError(ProblemError):
    """401: the key is missing, unknown, expired or revoked."""

    statuses = frozenset({401})


class PermissionDeniedError(ProblemError):
    """403: the key lacks a scope (`required_scope`), or may not be used here."""

    statuses = frozenset({403})

    @property
    def required_scope(self) -> str | None:
        return self.document.get("required_scope")


class NotFoundError(ProblemError):
    """404: there is no such resource, or it is another tenant's."""

    statuses = frozenset({404})


class ConflictError(ProblemError):
    """409: the request conflicts with the state of the resource. `allowed` says what is possible."""

    statuses = frozenset({409})

    @property
    def allowed(self) -> List[str]:
        return list(self.document.get("allowed") or [])


class PositionExpiredError(ProblemError):
    """410: the changes after the position are no longer stored. Read everything again."""

    statuses = frozenset({410})


class PreconditionFailedError(ProblemError):
    """412: the resource has changed since it was read. Read it again and repeat the change."""

    statuses = frozenset({412})


class RateLimitedError(ProblemError):
    """429: too many requests, also after all retries."""

    statuses = frozenset({429})


class ServerError(ProblemError):
    """5xx: the API failed or is busy, also after all retries."""

    statuses = frozenset(range(500, 600))


_by_status = {status: kind for kind in ProblemError.__subclasses__() for status in kind.statuses}


def problem_of(document: Mapping[str, Any], retry_after: float | None) -> ProblemError:
    """Returns the most specific error for a problem document."""
    return _by_status.get(document["status"], ProblemError)(document, retry_after)
