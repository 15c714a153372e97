from __future__ import annotations

import asyncio
import base64
import hashlib
import io
import json
from pathlib import Path
from typing import Any, List

import httpx
import pytest
from api import KEY, URL, Answer, Api, problem

import postern
from postern._receipts import verify_receipt

CONTENT = bytes(range(256)) * 100
HEX = hashlib.sha256(CONTENT).hexdigest()
BROKEN = httpx.ReadError("connection reset")
LOCATION = {"location": "/api/v1/evidence/uploads/u-1"}


def receipt(**members: Any) -> dict[str, Any]:
    return {"id": "1", "reference": "EV-1", "sha256": HEX, "size_bytes": len(CONTENT), **members}


def encode(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def jws(**members: Any) -> str:
    return f"{encode({'alg': 'EdDSA'})}.{encode(receipt(**members))}.c2ln"


def at(offset: int, headers: dict[str, str] | None = None, status: int = 204) -> httpx.Response:
    return httpx.Response(status, headers={"upload-offset": str(offset), **(headers or {})})


def created(**members: Any) -> httpx.Response:
    return httpx.Response(201, json=receipt(**members))


@pytest.mark.parametrize("kind", ["bytes", "path", "file"])
def test_a_file_is_sent_with_its_digest_and_again_after_a_failure(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "log.bin"
    path.write_bytes(b"xx" + CONTENT if kind == "file" else CONTENT)
    api = Api(BROKEN, created())
    with path.open("rb") as file:
        # A file is sent from its position.
        file.seek(2)
        content: Any = {"bytes": CONTENT, "path": path, "file": file}[kind]
        stored = api.client().evidence.upload(content, file_name="log.bin", test_procedures=["ext:1", "ext:2"])
    assert stored["reference"] == "EV-1"
    assert api.bodies == [CONTENT, CONTENT]
    first, second = api.requests
    assert first.headers["content-digest"] == f"sha-256=:{base64.b64encode(bytes.fromhex(HEX)).decode()}:"
    assert first.headers["content-length"] == str(len(CONTENT)) and "transfer-encoding" not in first.headers
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"]
    assert first.url.query == b"file_name=log.bin&test_procedure=ext%3A1&test_procedure=ext%3A2"


def test_the_name_of_a_path_is_the_default(tmp_path: Path) -> None:
    (tmp_path / "log.bin").write_bytes(CONTENT)
    api = Api(created())
    api.client().evidence.upload(tmp_path / "log.bin")
    assert api.requests[0].url.params["file_name"] == "log.bin"
    with pytest.raises(ValueError, match="file_name is missing"):
        api.client().evidence.upload(b"x")


@pytest.mark.parametrize("members", [{"sha256": "0" * 64}, {"size_bytes": 2}])
def test_a_receipt_for_other_bytes_is_an_error(members: dict[str, Any]) -> None:
    with pytest.raises(postern.ReceiptError, match="other bytes"):
        Api(created(**members)).client().evidence.upload(CONTENT, file_name="a")


@pytest.mark.parametrize("content", [io.StringIO("text"), "text", 1])
def test_what_is_no_content_is_rejected(content: Any) -> None:
    with pytest.raises(TypeError):
        Api().client().evidence.upload(content, file_name="a")


def test_a_form_has_the_same_bytes_at_each_attempt_and_no_broken_fields() -> None:
    api = Api(BROKEN, httpx.Response(201, json=[receipt(), receipt()]))
    files = [postern.EvidenceFile(CONTENT, 'a"b\r\nc.bin'), postern.EvidenceFile(CONTENT, "d.bin", "text/csv")]
    assert len(api.client().evidence.upload_all(files, about={"source_system": "IAM"})) == 2
    assert api.bodies[0] == api.bodies[1]
    assert rb'filename="a\"b__c.bin"' in api.bodies[0]
    metadata = api.bodies[0].split(b"\r\n\r\n")[1].split(b"\r\n")[0]
    assert json.loads(metadata) == {"source_system": "IAM", "sha256": [HEX, HEX]}


def test_a_form_with_a_missing_receipt_is_an_error() -> None:
    with pytest.raises(postern.ReceiptError, match="1 receipts for 2 files"):
        files = [postern.EvidenceFile(CONTENT, "a"), postern.EvidenceFile(CONTENT, "b")]
        Api(httpx.Response(201, json=[receipt()])).client().evidence.upload_all(files)


def test_a_content_type_cannot_end_its_field() -> None:
    with pytest.raises(ValueError, match="media type"):
        Api().client().evidence.upload_all([postern.EvidenceFile(CONTENT, "a", "text/csv\r\nX: 1")])


def test_pieces_continue_where_the_api_is_after_a_failure() -> None:
    api = Api(
        httpx.Response(201, headers=LOCATION),
        at(10_000),
        BROKEN,
        at(12_345, status=200),
        at(22_345),
        at(len(CONTENT), {"postern-receipt": jws()}),
    )
    progress: List[postern.UploadProgress] = []
    stored = api.client().evidence.upload_resumably(
        CONTENT, file_name="a", piece_bytes=10_000, on_progress=progress.append
    )
    assert stored["sha256"] == HEX
    assert [request.method for request in api.requests] == ["POST", "PATCH", "PATCH", "HEAD", "PATCH", "PATCH"]
    assert api.bodies[1] + api.bodies[2][:2345] + api.bodies[4] + api.bodies[5] == CONTENT
    assert [(each.id, each.sent) for each in progress][-1] == ("u-1", len(CONTENT))


def test_an_interrupted_upload_is_resumed_by_its_id() -> None:
    api = Api(at(25_000, status=200), at(len(CONTENT), {"postern-receipt": jws()}))
    api.client().evidence.upload_resumably(CONTENT, file_name="a", resume="u-1")
    assert api.bodies[1] == CONTENT[25_000:]


def test_a_resumed_upload_of_another_file_is_an_error() -> None:
    api = Api(at(len(CONTENT), {"postern-receipt": jws(sha256="0" * 64)}, 200))
    with pytest.raises(postern.ReceiptError):
        api.client().evidence.upload_resumably(CONTENT, file_name="a", resume="u-1")


def test_pieces_end_after_five_failures_without_progress() -> None:
    failures: List[Answer] = [BROKEN, at(0, status=200)] * 5
    api = Api(httpx.Response(201, headers=LOCATION), *failures, BROKEN)
    with pytest.raises(postern.ConnectionFailedError):
        api.client().evidence.upload_resumably(CONTENT, file_name="a")
    assert api.answers == []


@pytest.mark.parametrize("answer", [at(0), httpx.Response(204), problem(422, "digest_mismatch")])
def test_pieces_without_progress_are_not_sent_forever(answer: httpx.Response) -> None:
    api = Api(httpx.Response(201, headers=LOCATION), answer)
    with pytest.raises((postern.UnexpectedResponseError, postern.ProblemError)):
        api.client().evidence.upload_resumably(CONTENT, file_name="a")


def test_an_upload_at_another_host_does_not_get_the_key() -> None:
    api = Api(httpx.Response(201, headers={"location": "https://elsewhere.example/api/v1/evidence/uploads/u-1"}))
    with pytest.raises(postern.ForeignLinkError):
        api.client().evidence.upload_resumably(CONTENT, file_name="a")
    assert len(api.requests) == 1


def test_the_asynchronous_client_uploads_in_the_same_ways(tmp_path: Path) -> None:
    (tmp_path / "log.bin").write_bytes(CONTENT)
    api = Api(
        BROKEN,
        created(),
        httpx.Response(201, json=[receipt()]),
        httpx.Response(201, headers=LOCATION),
        at(len(CONTENT), {"postern-receipt": jws()}),
    )

    async def upload() -> None:
        async with postern.AsyncClient(URL, KEY, transport=httpx.MockTransport(api.handle)) as client:
            await client.evidence.upload(tmp_path / "log.bin")
            await client.evidence.upload_all([postern.EvidenceFile(tmp_path / "log.bin")])
            await client.evidence.upload_resumably(tmp_path / "log.bin")

    asyncio.run(upload())
    assert api.bodies[:2] == [CONTENT, CONTENT] and api.bodies[4] == CONTENT


class TestSignature:
    """Of a key that the test makes."""

    def sign(self, payload: Any, header: dict[str, str]) -> tuple[dict[str, Any], List[dict[str, str]]]:
        ed25519 = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")
        key = ed25519.Ed25519PrivateKey.generate()
        x = base64.urlsafe_b64encode(key.public_key().public_bytes_raw()).decode().rstrip("=")
        signed = f"{encode({'alg': 'EdDSA', 'typ': 'postern-receipt', 'kid': 'k', **header})}.{encode(payload)}"
        signature = base64.urlsafe_b64encode(key.sign(signed.encode())).decode().rstrip("=")
        return {**payload, "jws": f"{signed}.{signature}"}, [{"kid": "k", "kty": "OKP", "crv": "Ed25519", "x": x}]

    def test_a_signed_receipt_is_valid(self) -> None:
        verify_receipt(*self.sign(receipt(), {}))

    @pytest.mark.parametrize("header", [{"alg": "none"}, {"typ": "JWT"}, {"kid": "other"}])
    def test_another_kind_of_signature_is_rejected(self, header: dict[str, str]) -> None:
        with pytest.raises(postern.ReceiptError):
            verify_receipt(*self.sign(receipt(), header))

    @pytest.mark.parametrize("change", [{"sha256": "0" * 64}, {"extra": 1}, {"jws": "a.b"}, {"jws": ""}])
    def test_a_changed_receipt_is_rejected(self, change: dict[str, Any]) -> None:
        signed, keys = self.sign(receipt(), {})
        with pytest.raises(postern.ReceiptError):
            verify_receipt({**signed, **change}, keys)

    def test_the_signature_of_another_key_is_rejected(self) -> None:
        signed, _ = self.sign(receipt(), {})
        _, keys = self.sign(receipt(), {})
        with pytest.raises(postern.ReceiptError, match="not valid"):
            verify_receipt(signed, keys)
