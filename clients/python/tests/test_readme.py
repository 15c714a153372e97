"""Runs the examples of the README in order, against a running Postern."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Dict

import pytest

import postern

blocks = re.findall(r"```python\n(.*?)```", (Path(__file__).parent.parent / "README.md").read_text(), re.DOTALL)


@pytest.mark.skipif("POSTERN_URL" not in os.environ, reason="POSTERN_URL is not set: no running Postern")
def test_the_examples_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("access-review.csv").write_text("user,role\n")
    with postern.Client(os.environ["POSTERN_URL"], os.environ["POSTERN_KEY"]) as client:
        client.push.test_procedures([{"external_id": "TP-1", "title": "Access review"}])
    variables: Dict[str, Any] = {}
    for block in blocks:
        if "requests.get" not in block:
            exec(block, variables)
    variables["client"].close()
    assert re.search(r"^\d+ findings$", capsys.readouterr().out, re.MULTILINE)


def test_the_first_example_is_that_of_the_guide() -> None:
    assert 'print(len(response.json()), "findings on the first page")' in blocks[0]
    assert len(blocks) >= 5
