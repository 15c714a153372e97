from __future__ import annotations

import asyncio
import time
from typing import List

import pytest


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> List[float]:
    """The waits between attempts, which take no time, except against a running API."""
    kept: List[float] = []
    if request.module.__name__ in ("test_live", "test_readme"):
        return kept

    async def wait(seconds: float) -> None:
        kept.append(seconds)

    monkeypatch.setattr(time, "sleep", kept.append)
    monkeypatch.setattr(asyncio, "sleep", wait)
    return kept
