"""Against a running Postern: POSTERN_URL, and POSTERN_KEY with all scopes. `npm run test:clients` starts one."""

from __future__ import annotations

import asyncio
import hashlib
import os
from pathlib import Path
from typing import Any, Iterator, List

import pytest

import postern
from postern import models

pytestmark = pytest.mark.skipif("POSTERN_URL" not in os.environ, reason="POSTERN_URL is not set: no running Postern")

NEW: models.CreateFinding = {"title": "Made by the Python client", "condition": "Seen.", "severity": "low"}
UNKNOWN = "00000000-0000-4000-8000-000000000000"


def arguments() -> Any:
    return os.environ["POSTERN_URL"], os.environ["POSTERN_KEY"]


@pytest.fixture
def client() -> Iterator[postern.Client]:
    with postern.Client(*arguments()) as opened:
        yield opened


def test_the_caller_is_the_key(client: postern.Client) -> None:
    assert "read:findings" in client.whoami()["scopes"] or "*" in client.whoami()["scopes"]


def test_a_list_has_every_finding_once_over_several_pages(client: postern.Client) -> None:
    pages = client.findings.list(limit=2)
    found = [finding["id"] for finding in pages]
    assert len(found) == len(set(found)) == pages.count() >= 5
    assert [len(page) for page in pages.pages()][0] == 2
    assert found == [finding["id"] for finding in client.findings.list().all()]


def test_a_finding_is_created_once_however_often_it_is_sent(client: postern.Client) -> None:
    first = client.findings.create(NEW, idempotency_key="python-once")
    second = client.findings.create(NEW, idempotency_key="python-once")
    assert first["id"] == second["id"]
    other = client.findings.create(NEW)
    assert other["id"] != first["id"]


def test_a_finding_is_read_by_reference_and_updated_with_its_entity_tag(client: postern.Client) -> None:
    made = client.findings.create({**NEW, "external_id": "a/b;c"})
    read = client.findings.get(f"ref:{made['reference']}")
    assert read["id"] == client.findings.get("ext:a/b;c")["id"] == made["id"]
    changed = client.findings.update(read, {"severity": "high"})
    assert changed["severity"] == "high"
    with pytest.raises(postern.PreconditionFailedError) as caught:
        client.findings.update(read, {"severity": "low"})
    assert caught.value.code == "precondition_failed"
    edited = client.findings.edit(made["id"], lambda finding: {"title": f"{finding['title']}, edited"})
    assert edited["title"] == "Made by the Python client, edited"


def test_problems_are_errors_with_the_words_of_the_api(client: postern.Client) -> None:
    with pytest.raises(postern.NotFoundError) as missing:
        client.findings.get(UNKNOWN)
    assert missing.value.code == "not_found" and missing.value.instance
    with pytest.raises(postern.InvalidRequestError) as invalid:
        client.findings.create({"title": "x", "condition": "y", "severity": "sever"})  # type: ignore[typeddict-item]
    assert invalid.value.errors[0]["pointer"] == "/severity"
    url, key = arguments()
    altered = key[:-1] + ("a" if key[-1] != "a" else "b")
    with postern.Client(url, altered) as stranger, pytest.raises(postern.AuthenticationError):
        stranger.whoami()


def test_changes_continue_where_the_last_run_ended(client: postern.Client) -> None:
    start = client.changes("now")
    assert list(start) == []
    made = [client.findings.create(NEW)["id"] for _ in range(3)]
    feed = client.changes(start.position, limit=2)
    assert [change["id"] for change in feed if change["kind"] == "finding"] == made
    again = client.changes(feed.position)
    assert list(again) == []
    assert again.position == feed.position


def test_a_position_of_nobody_is_a_problem(client: postern.Client) -> None:
    with pytest.raises(postern.ProblemError):
        list(client.changes("nothing"))


def test_evidence_is_stored_as_it_was_sent_in_each_way(client: postern.Client, tmp_path: Path) -> None:
    content = os.urandom(300_000)
    (tmp_path / "café.bin").write_bytes(content)
    raw = client.evidence.upload(tmp_path / "café.bin", about={"source_system": "IAM"})
    form = client.evidence.upload_all(
        [postern.EvidenceFile(content, "a.bin"), postern.EvidenceFile(tmp_path / "café.bin")],
        about={"description": "Für alle"},
    )
    pieces = client.evidence.upload_resumably(content, file_name="c.bin", piece_bytes=100_000)
    assert {receipt["sha256"] for receipt in [raw, *form, pieces]} == {hashlib.sha256(content).hexdigest()}
    assert [receipt["file_name"] for receipt in [raw, *form, pieces]] == ["café.bin", "a.bin", "café.bin", "c.bin"]
    assert client.evidence.revise(raw, b"second version", file_name="b.bin")["revision"] == 2
    for receipt in [raw, *form, pieces]:
        client.evidence.verify(receipt)
    with pytest.raises(postern.ReceiptError):
        client.evidence.verify({**raw, "sha256": "0" * 64})


def test_an_interrupted_upload_continues_in_another_client(client: postern.Client) -> None:
    content = os.urandom(300_000)
    seen: List[postern.UploadProgress] = []

    def stop(progress: postern.UploadProgress) -> None:
        seen.append(progress)
        if progress.sent > 0:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        client.evidence.upload_resumably(content, file_name="d.bin", piece_bytes=100_000, on_progress=stop)
    with postern.Client(*arguments()) as other:
        receipt = other.evidence.upload_resumably(
            content, file_name="d.bin", resume=seen[-1].id, on_progress=seen.append
        )
    assert receipt["sha256"] == hashlib.sha256(content).hexdigest()
    assert [each.sent for each in seen] == [0, 100_000, 100_000, 300_000]


def test_the_asynchronous_client_does_the_same(tmp_path: Path) -> None:
    (tmp_path / "e.bin").write_bytes(b"evidence")
    async def steps() -> None:
        async with postern.AsyncClient(*arguments()) as client:
            start = client.changes("now")
            assert [change async for change in start] == []
            made = await client.findings.create(NEW)
            assert (await client.findings.update(await client.findings.get(made["id"]), {"severity": "high"}))["severity"] == "high"
            pages = client.findings.list(limit=2)
            assert len(await pages.all()) == await pages.count()
            feed = client.changes(start.position)
            assert {change["id"] async for change in feed} == {made["id"]}
            for receipt in [
                await client.evidence.upload(tmp_path / "e.bin"),
                *await client.evidence.upload_all([postern.EvidenceFile(tmp_path / "e.bin")]),
                await client.evidence.upload_resumably(tmp_path / "e.bin"),
            ]:
                await client.evidence.verify(receipt)
            with pytest.raises(postern.NotFoundError):
                await client.findings.get(UNKNOWN)

    asyncio.run(steps())
