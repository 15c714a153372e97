"""Signatures of receipts: a compact JWS (RFC 7515) with Ed25519 (RFC 8037)."""

from __future__ import annotations

import base64
import json
from typing import Any, Dict, Mapping, Sequence

from . import models
from ._errors import ReceiptError

_types = ("postern-receipt", "postern-attachment")


def receipt_of(jws: str) -> models.EvidenceReceipt:
    """Returns the receipt that is the payload of a signature, which is not verified."""
    receipt = {**_part_of(jws, 1), "jws": jws}
    return receipt  # type: ignore[return-value]


def verify_receipt(receipt: Mapping[str, Any], keys: Sequence[Mapping[str, Any]]) -> None:
    """Verifies a receipt with published keys (`/.well-known/jwks.json`). Raises ReceiptError.

    Needs `cryptography`, which the extra `receipts` installs.
    """
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    jws = str(receipt.get("jws", ""))
    header = _part_of(jws, 0)
    if header.get("alg") != "EdDSA" or header.get("typ") not in _types:
        raise ReceiptError("The signature is not that of a receipt.")
    key = next((each for each in keys if each.get("kid") == header.get("kid") and each.get("crv") == "Ed25519"), None)
    if key is None:
        raise ReceiptError("The receipt is signed with a key that is not published.")
    signed, _, signature = jws.rpartition(".")
    try:
        Ed25519PublicKey.from_public_bytes(_decode(key["x"])).verify(_decode(signature), signed.encode())
        is_valid = True
    except (InvalidSignature, ValueError):
        is_valid = False
    if not is_valid:
        raise ReceiptError("The signature of the receipt is not valid.")
    if _part_of(jws, 1) != {name: value for name, value in receipt.items() if name != "jws"}:
        raise ReceiptError("The receipt is not the one that was signed.")


def _part_of(jws: str, index: int) -> Dict[str, Any]:
    parts = jws.split(".")
    try:
        part = json.loads(_decode(parts[index])) if len(parts) == 3 else None
    except ValueError:
        part = None
    if not isinstance(part, dict):
        raise ReceiptError("The signature of the receipt is not a compact JWS.")
    return part


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
