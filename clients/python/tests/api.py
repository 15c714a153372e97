"""An API in memory, for what a running one does only by chance."""

from __future__ import annotations

import json
from typing import Any, Callable, Dict, List, Union

import httpx

from postern import Client

URL = "https://postern.example"
KEY = "postern_" + "k" * 49

Answer = Union[httpx.Response, Exception, Callable[[httpx.Request], httpx.Response]]


def ok(value: Any, headers: Dict[str, str] | None = None) -> httpx.Response:
    return httpx.Response(200, json=value, headers=headers)


def problem(status: int, code: str, headers: Dict[str, str] | None = None, **members: Any) -> httpx.Response:
    document = {"type": f"/problems/{code}", "title": "A title", "status": status, "code": code, "instance": "r-1"}
    return httpx.Response(
        status,
        content=json.dumps({**document, **members}),
        headers={"content-type": "application/problem+json", **(headers or {})},
    )


class Api:
    """Gives the answers in order, and keeps the requests."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.requests: List[httpx.Request] = []
        self.bodies: List[bytes] = []

    def handle(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        self.bodies.append(request.read())
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, httpx.Response) else answer(request)

    def client(self, url: str = URL, **options: Any) -> Client:
        return Client(url, KEY, transport=httpx.MockTransport(self.handle), **options)
