"""A client for Postern, the API of an audit-management system."""

from . import models
from ._base import etag_of
from ._changes import AsyncChanges, Changes, ChangesPage
from ._client import AsyncClient, Client
from ._errors import (
    AuthenticationError,
    ConflictError,
    ConnectionFailedError,
    ForeignLinkError,
    InvalidRequestError,
    NotFoundError,
    PermissionDeniedError,
    PositionExpiredError,
    PosternError,
    PreconditionFailedError,
    ProblemError,
    RateLimitedError,
    ReceiptError,
    ServerError,
    UnexpectedResponseError,
)
from ._evidence import EvidenceFile, UploadProgress
from ._pages import AsyncPages, Pages
from ._receipts import verify_receipt

__all__ = [
    "AsyncChanges",
    "AsyncClient",
    "AsyncPages",
    "AuthenticationError",
    "Changes",
    "ChangesPage",
    "Client",
    "ConflictError",
    "ConnectionFailedError",
    "EvidenceFile",
    "ForeignLinkError",
    "InvalidRequestError",
    "NotFoundError",
    "Pages",
    "PermissionDeniedError",
    "PositionExpiredError",
    "PosternError",
    "PreconditionFailedError",
    "ProblemError",
    "RateLimitedError",
    "ReceiptError",
    "ServerError",
    "UnexpectedResponseError",
    "UploadProgress",
    "etag_of",
    "models",
    "verify_receipt",
]
__version__ = "1.0.0b1"
