"""The address of the API, paths and links."""

from __future__ import annotations

import base64
import re
from typing import Any, Mapping, Sequence, Union
from urllib.parse import quote, urlencode, urljoin, urlsplit

from ._errors import ForeignLinkError

Target = Union[str, Mapping[str, Any]]
"""A resource, or its address: an id, `ref:` and a reference, or `ext:` and your own id."""

_ports = {"http": 80, "https": 443}


class Address:
    """An origin and the path that a proxy adds. The key is sent only there."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        is_plain = not (parts.query or parts.fragment or "@" in parts.netloc or "/api/v1/" in parts.path + "/")
        if parts.scheme not in _ports or not parts.hostname or not is_plain:
            raise ValueError("url must be the address of the gateway without /api/v1, such as https://postern.example.com")
        self.base = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
        self._origin = _origin_of(self.base)

    def target_of(self, link: str) -> str:
        """Returns path and query of a link. Raises ForeignLinkError if it leads to another origin."""
        url = urljoin(self.base + "/", link)
        if _origin_of(url) != self._origin:
            raise ForeignLinkError("The next page is on another origin, which must not get the key.")
        parts = urlsplit(url)
        # The gateway may know its path by another name.
        path = parts.path[max(0, parts.path.rfind("/api/v1/")) :]
        return f"{path}?{parts.query}" if parts.query else path


def _origin_of(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or _ports.get(parts.scheme)


def id_of(target: Target) -> str:
    return target if isinstance(target, str) else str(target["id"])


def fill_path(path: str, names: Mapping[str, Target]) -> str:
    """The gateway rejects unnecessary escapes, such as that of the colon of `ref:`."""
    return re.sub(r"\{(\w+)\}", lambda found: _escape(id_of(names[found.group(1)])), path)


def _escape(address: str) -> str:
    if address in ("", ".", ".."):
        raise ValueError("the address of a resource must be an id, `ref:…` or `ext:…`")
    if address.startswith("ext:") and re.search(r"[/\\%;]", address):
        encoded = base64.urlsafe_b64encode(address[len("ext:") :].encode()).decode().rstrip("=")
        address = f"ext64:{encoded}"
    return quote(address, safe=":!'()*")


def query_of(parameters: Mapping[str, Any]) -> str:
    """Repeats a parameter that has several values. Raises ValueError for an empty list, which would match everything."""
    pairs: list[tuple[str, str]] = []
    for name, value in parameters.items():
        if value is None:
            continue
        values = [value] if isinstance(value, (str, bytes)) or not isinstance(value, Sequence) else value
        if not values:
            raise ValueError(f"{name} is an empty list, which matches nothing: leave it out to get everything")
        # `from_` stands for `from`, which is a word of Python.
        pairs += [(name.rstrip("_"), _text_of(each)) for each in values]
    return f"?{urlencode(pairs)}" if pairs else ""


def _text_of(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def next_link(link: str | None) -> str | None:
    """Returns the target of `rel="next"` (RFC 8288, section 3)."""
    for url, parameters in re.findall(r'<([^>]*)>((?:\s*;\s*[^,;"]+(?:"[^"]*")?)*)', link or ""):
        relation = re.search(r';\s*rel="?([^";]*)', parameters)
        if relation and "next" in relation.group(1).split():
            return str(url)
    return None
