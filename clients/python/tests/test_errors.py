from __future__ import annotations

import pickle
from typing import Type

import httpx
import pytest
from api import Api, ok, problem

import postern


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "bad_request", postern.InvalidRequestError),
        (401, "key_expired", postern.AuthenticationError),
        (403, "address_not_allowed", postern.PermissionDeniedError),
        (404, "not_found", postern.NotFoundError),
        (409, "conflict", postern.ConflictError),
        (410, "cursor_expired", postern.PositionExpiredError),
        (412, "precondition_failed", postern.PreconditionFailedError),
        (422, "invalid_content", postern.InvalidRequestError),
        (500, "internal_error", postern.ServerError),
    ],
)
def test_a_problem_has_a_class_of_its_own(status: int, code: str, kind: Type[postern.ProblemError]) -> None:
    errors = [{"pointer": "/severity", "code": "invalid_value", "detail": "must be one of high, low"}]
    with pytest.raises(kind) as caught:
        Api(problem(status, code, detail="What to do.", errors=errors)).client().whoami()
    error = caught.value
    assert (error.status, error.code, error.detail, error.instance) == (status, code, "What to do.", "r-1")
    assert error.errors == errors
    assert str(error) == f"{status} {code}: What to do. (request r-1)"


def test_a_missing_scope_is_named() -> None:
    with pytest.raises(postern.PermissionDeniedError) as caught:
        Api(problem(403, "insufficient_scope", required_scope="read:findings")).client().whoami()
    assert caught.value.required_scope == "read:findings"


def test_an_error_can_be_sent_to_another_process() -> None:
    with pytest.raises(postern.NotFoundError) as caught:
        Api(problem(404, "not_found", detail="Gone.")).client().whoami()
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize(
    "response",
    [
        httpx.Response(418, text="<html>", headers={"x-request-id": "p-1"}),
        httpx.Response(418, content=b"{", headers={"content-type": "application/problem+json", "x-request-id": "p-1"}),
        httpx.Response(
            418, content=b'{"status":"418"}', headers={"content-type": "application/problem+json", "x-request-id": "p-1"}
        ),
        httpx.Response(307, headers={"location": "https://elsewhere.example/", "x-request-id": "p-1"}),
    ],
)
def test_the_error_of_a_proxy_is_unknown(response: httpx.Response) -> None:
    api = Api(response)
    with pytest.raises(postern.ProblemError) as caught:
        api.client().whoami()
    assert (caught.value.code, caught.value.status, caught.value.instance) == ("unknown", response.status_code, "p-1")
    assert len(api.requests) == 1


@pytest.mark.parametrize("response", [httpx.Response(200, text="<html>"), httpx.Response(200, json={})])
def test_a_page_of_something_else_is_not_a_list(response: httpx.Response) -> None:
    with pytest.raises(postern.UnexpectedResponseError):
        Api(response).client().findings.list().all()


def test_an_answer_that_is_not_json_is_an_error_of_this_package() -> None:
    with pytest.raises(postern.UnexpectedResponseError):
        Api(httpx.Response(200, text="<html>")).client().whoami()


def test_an_answer_in_json_is_returned() -> None:
    assert Api(ok({"label": "BI"})).client().whoami()["label"] == "BI"
