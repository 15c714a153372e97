"""Uploads of evidence: one file, a form of several, or a large file in pieces."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import uuid
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Mapping, Sequence

from . import models
from ._address import Target, fill_path, query_of
from ._base import answer
from ._content import Body, Content, Part, name_of
from ._errors import ConnectionFailedError, ProblemError, ReceiptError, UnexpectedResponseError
from ._exchange import Reply, Request, RetryPolicy, Steps, Wait, Work, exchange, new_idempotency_key
from ._operations import AsyncEvidenceOperations, EvidenceOperations, UploadEvidenceQuery
from ._receipts import receipt_of, verify_receipt

_uploads_path = "/api/v1/evidence/uploads"
_default_piece = 8 * 1024 * 1024
_tus = {"tus-resumable": "1.0.0"}
_max_failures = 5
_octets = "application/octet-stream"


@dataclass(frozen=True)
class EvidenceFile:
    """A file of a form. The name is that of the path, if there is one."""

    content: Content
    file_name: str | None = None
    content_type: str = _octets


@dataclass(frozen=True)
class UploadProgress:
    id: str
    """Pass it as `resume` to continue after an interruption."""
    sent: int
    size: int


OnProgress = Callable[[UploadProgress], object]


def _name_for(content: Content, file_name: str | None) -> str:
    name = file_name or name_of(content)
    if name is None:
        raise ValueError("file_name is missing: the content has no name of its own")
    return name


def _assert_stored(receipt: models.EvidenceReceipt, digest: bytes, size: int) -> models.EvidenceReceipt:
    if receipt["sha256"] != digest.hex() or receipt["size_bytes"] != size:
        raise ReceiptError(f"The receipt {receipt['reference']} is for other bytes than the sent ones. Upload the file again.")
    return receipt


def _upload(
    policy: RetryPolicy,
    path: str,
    content: Content,
    file_name: str | None,
    content_type: str,
    test_procedures: Sequence[str],
    about: Mapping[str, Any],
    idempotency_key: str | None,
) -> Steps[models.EvidenceReceipt]:
    part = Part(content)
    digest: bytes = yield Work(part.sha256)
    query = {**about, "file_name": _name_for(content, file_name), "test_procedure": list(test_procedures) or None}
    headers = {
        "content-type": content_type,
        "content-digest": f"sha-256=:{base64.b64encode(digest).decode()}:",
        "idempotency-key": idempotency_key or new_idempotency_key(),
    }
    receipt = yield from answer(Request("POST", path + query_of(query), headers, Body([part]), is_long=True), policy)
    return _assert_stored(receipt, digest, part.size)


def _upload_form(
    policy: RetryPolicy,
    files: Sequence[EvidenceFile],
    test_procedures: Sequence[str],
    about: Mapping[str, Any],
    idempotency_key: str | None,
) -> Steps[List[models.EvidenceReceipt]]:
    parts = [Part(file.content) for file in files]
    digests: List[bytes] = yield Work(lambda: [part.sha256() for part in parts])
    boundary = f"postern-{uuid.uuid4()}"
    metadata = _details_of(about, test_procedures, digests).encode()
    body = [Part(_head(boundary, 'name="metadata"', "application/json")), Part(metadata), Part(b"\r\n")]
    for file, part in zip(files, parts):
        # RFC 9110, section 5.6.4. A line break must not end the field.
        name = re.sub(r'(["\\])', r"\\\1", re.sub(r"[\r\n]", "_", _name_for(file.content, file.file_name)))
        body += [Part(_head(boundary, f'name="file"; filename="{name}"', file.content_type)), part, Part(b"\r\n")]
    body.append(Part(f"--{boundary}--\r\n".encode()))
    headers = {
        "content-type": f"multipart/form-data; boundary={boundary}",
        "idempotency-key": idempotency_key or new_idempotency_key(),
    }
    request = Request("POST", "/api/v1/evidence/forms", headers, Body(body), is_long=True)
    receipts = yield from answer(request, policy)
    if len(receipts) != len(parts):
        raise ReceiptError(f"The response has {len(receipts)} receipts for {len(parts)} files.")
    return [_assert_stored(*each) for each in zip(receipts, digests, [part.size for part in parts])]


def _head(boundary: str, disposition: str, content_type: str) -> bytes:
    if not re.fullmatch(r"[\x20-\x7e]+", content_type):
        raise ValueError("content_type must be a media type")
    return f"--{boundary}\r\nContent-Disposition: form-data; {disposition}\r\nContent-Type: {content_type}\r\n\r\n".encode()


def _details_of(about: Mapping[str, Any], test_procedures: Sequence[str], digests: Sequence[bytes]) -> str:
    """The API stores nothing if a file has another digest."""
    details: Dict[str, Any] = {**about, "sha256": [digest.hex() for digest in digests]}
    if test_procedures:
        details["test_procedures"] = list(test_procedures)
    return json.dumps(details, ensure_ascii=False)


@dataclass(frozen=True)
class _State:
    offset: int
    receipt: str | None


def _state_of(reply: Reply) -> _State:
    offset = reply.headers.get("upload-offset", "")
    if not offset.isdigit():
        raise UnexpectedResponseError("The response has no valid Upload-Offset.")
    return _State(int(offset), reply.headers.get("postern-receipt"))


def _upload_resumably(
    connection: Any,
    content: Content,
    file_name: str | None,
    content_type: str,
    test_procedures: Sequence[str],
    about: Mapping[str, Any],
    resume: str | None,
    piece_bytes: int,
    on_progress: OnProgress | None,
) -> Steps[models.EvidenceReceipt]:
    """Sends pieces with their SHA-256 (tus 1.0), and after a failure continues where the API is."""
    policy: RetryPolicy = connection.policy
    part = Part(content)
    digest: bytes = yield Work(part.sha256)
    metadata = {
        "filename": _name_for(content, file_name),
        "filetype": content_type,
        "metadata": _details_of(about, test_procedures, [digest]),
    }
    at = _State(0, None)
    if resume is None:
        location = yield from _begin(policy, part.size, metadata)
        upload = connection.address.target_of(location).rsplit("/", 1)[1]
        target = fill_path(_uploads_path + "/{id}", {"id": upload})
    else:
        upload = resume
        target = fill_path(_uploads_path + "/{id}", {"id": upload})
        at = yield from _read_state(policy, target)
    failures = 0
    while at.receipt is None:
        if on_progress is not None:
            on_progress(UploadProgress(upload, at.offset, part.size))
        before = at.offset
        try:
            at = yield from _send_piece(policy, target, part, before, piece_bytes)
            failure = None
        except (ConnectionFailedError, ProblemError) as error:
            failure = error
        if failure is not None:
            failures += 1
            delay = _delay_after(failure, failures, policy)
            if delay is None:
                raise failure
            yield Wait(delay)
            at = yield from _read_state(policy, target)
        elif at.offset <= before and at.receipt is None:
            # A proxy may drop headers, and asking again would not help.
            raise UnexpectedResponseError("The response reports no progress and no receipt.")
        if at.offset > before:
            failures = 0
    if on_progress is not None:
        on_progress(UploadProgress(upload, part.size, part.size))
    return _assert_stored(receipt_of(at.receipt), digest, part.size)


def _delay_after(failure: Exception, failures: int, policy: RetryPolicy) -> float | None:
    """A damaged or repeated piece is sent again too, from where the API is."""
    retry_after = failure.retry_after if isinstance(failure, ProblemError) else None
    if isinstance(failure, ProblemError) and failure.status not in (408, 409, 429, 460, 502, 503, 504):
        return None
    return RetryPolicy(_max_failures, policy.max_wait).delay(failures, retry_after)


def _begin(policy: RetryPolicy, size: int, metadata: Mapping[str, str]) -> Steps[str]:
    pairs = [f"{name} {base64.b64encode(value.encode()).decode()}" for name, value in metadata.items()]
    headers = {
        **_tus,
        "upload-length": str(size),
        "upload-metadata": ",".join(pairs),
        "idempotency-key": new_idempotency_key(),
    }
    reply = yield from exchange(Request("POST", _uploads_path, headers), policy)
    location = reply.headers.get("location")
    if location is None:
        raise UnexpectedResponseError("The response has no Location.")
    return location


def _read_state(policy: RetryPolicy, target: str) -> Steps[_State]:
    return _state_of((yield from exchange(Request("HEAD", target, _tus), policy)))


def _send_piece(policy: RetryPolicy, target: str, part: Part, offset: int, size: int) -> Steps[_State]:
    piece: bytes = yield Work(lambda: part.read(offset, size))
    headers = {
        **_tus,
        "content-type": "application/offset+octet-stream",
        "upload-offset": str(offset),
        "upload-checksum": f"sha256 {base64.b64encode(hashlib.sha256(piece).digest()).decode()}",
    }
    request = Request("PATCH", target, headers, Body([Part(piece)]), is_long=True)
    return _state_of((yield from exchange(request, policy)))


_upload_path = "/api/v1/evidence"
_revise_path = "/api/v1/evidence/{id}/revisions"


class Evidence(EvidenceOperations):
    """Every receipt is compared with the SHA-256 of what was sent. Keep the receipts: no key can read evidence back."""

    def upload(
        self,
        content: Content,
        *,
        file_name: str | None = None,
        content_type: str = _octets,
        test_procedures: Sequence[str] = (),
        about: UploadEvidenceQuery | None = None,
        idempotency_key: str | None = None,
    ) -> models.EvidenceReceipt:
        """Uploads one file, and what you state about it."""
        policy = self._connection.policy
        inputs = (file_name, content_type, test_procedures, about or {}, idempotency_key)
        return self._connection.run(_upload(policy, _upload_path, content, *inputs))

    def revise(
        self,
        id: Target,
        content: Content,
        *,
        file_name: str | None = None,
        content_type: str = _octets,
        test_procedures: Sequence[str] = (),
        about: UploadEvidenceQuery | None = None,
        idempotency_key: str | None = None,
    ) -> models.EvidenceReceipt:
        """Uploads a new version of a file that the same key uploaded within the last 30 days."""
        path = fill_path(_revise_path, {"id": id})
        inputs = (file_name, content_type, test_procedures, about or {}, idempotency_key)
        return self._connection.run(_upload(self._connection.policy, path, content, *inputs))

    def upload_all(
        self,
        files: Sequence[EvidenceFile],
        *,
        test_procedures: Sequence[str] = (),
        about: models.EvidenceDetails | None = None,
        idempotency_key: str | None = None,
    ) -> List[models.EvidenceReceipt]:
        """Uploads up to ten files as a form, all or none. Returns the receipts in the order of the files."""
        inputs = (test_procedures, about or {}, idempotency_key)
        return self._connection.run(_upload_form(self._connection.policy, files, *inputs))

    def upload_resumably(
        self,
        content: Content,
        *,
        file_name: str | None = None,
        content_type: str = _octets,
        test_procedures: Sequence[str] = (),
        about: models.EvidenceDetails | None = None,
        resume: str | None = None,
        piece_bytes: int = _default_piece,
        on_progress: OnProgress | None = None,
    ) -> models.EvidenceReceipt:
        """Uploads a large file in pieces (tus 1.0) and continues after failures, also those of a process (`resume`)."""
        inputs = (file_name, content_type, test_procedures, about or {}, resume, piece_bytes, on_progress)
        return self._connection.run(_upload_resumably(self._connection, content, *inputs))

    def verify(self, receipt: Mapping[str, Any]) -> None:
        """Verifies the signature of a receipt with the keys that the API publishes. Raises ReceiptError.

        Needs `cryptography`, which the extra `receipts` installs.
        """
        verify_receipt(receipt, self.receipt_keys()["keys"])


class AsyncEvidence(AsyncEvidenceOperations):
    """Every receipt is compared with the SHA-256 of what was sent. Keep the receipts: no key can read evidence back."""

    async def upload(
        self,
        content: Content,
        *,
        file_name: str | None = None,
        content_type: str = _octets,
        test_procedures: Sequence[str] = (),
        about: UploadEvidenceQuery | None = None,
        idempotency_key: str | None = None,
    ) -> models.EvidenceReceipt:
        """Uploads one file, and what you state about it."""
        policy = self._connection.policy
        inputs = (file_name, content_type, test_procedures, about or {}, idempotency_key)
        return await self._connection.run(_upload(policy, _upload_path, content, *inputs))

    async def revise(
        self,
        id: Target,
        content: Content,
        *,
        file_name: str | None = None,
        content_type: str = _octets,
        test_procedures: Sequence[str] = (),
        about: UploadEvidenceQuery | None = None,
        idempotency_key: str | None = None,
    ) -> models.EvidenceReceipt:
        """Uploads a new version of a file that the same key uploaded within the last 30 days."""
        path = fill_path(_revise_path, {"id": id})
        inputs = (file_name, content_type, test_procedures, about or {}, idempotency_key)
        return await self._connection.run(_upload(self._connection.policy, path, content, *inputs))

    async def upload_all(
        self,
        files: Sequence[EvidenceFile],
        *,
        test_procedures: Sequence[str] = (),
        about: models.EvidenceDetails | None = None,
        idempotency_key: str | None = None,
    ) -> List[models.EvidenceReceipt]:
        """Uploads up to ten files as a form, all or none. Returns the receipts in the order of the files."""
        inputs = (test_procedures, about or {}, idempotency_key)
        return await self._connection.run(_upload_form(self._connection.policy, files, *inputs))

    async def upload_resumably(
        self,
        content: Content,
        *,
        file_name: str | None = None,
        content_type: str = _octets,
        test_procedures: Sequence[str] = (),
        about: models.EvidenceDetails | None = None,
        resume: str | None = None,
        piece_bytes: int = _default_piece,
        on_progress: OnProgress | None = None,
    ) -> models.EvidenceReceipt:
        """Uploads a large file in pieces (tus 1.0) and continues after failures, also those of a process (`resume`)."""
        inputs = (file_name, content_type, test_procedures, about or {}, resume, piece_bytes, on_progress)
        return await self._connection.run(_upload_resumably(self._connection, content, *inputs))

    async def verify(self, receipt: Mapping[str, Any]) -> None:
        """Verifies the signature of a receipt with the keys that the API publishes. Raises ReceiptError.

        Needs `cryptography`, which the extra `receipts` installs.
        """
        verify_receipt(receipt, (await self.receipt_keys())["keys"])
