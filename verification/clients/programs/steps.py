import hashlib
import json
import os
import re

URL = os.environ["POSTERN_URL"]
KEY = os.environ["POSTERN_KEY"]


def expect_equal(what, found, wanted):
    if found != wanted:
        raise SystemExit(f"{what}: found {found!r}, wanted {wanted!r}")


def cursor_of(link):
    """Returns the cursor in the Link header of a page."""
    found = re.search(r"[?&]cursor=([^&>]+)[^>]*>; rel=\"next\"", link or "")
    if not found:
        raise SystemExit(f"no next page in {link!r}")
    return found.group(1)


def take_steps(client):
    """Lists, pages, creates, uploads and reads a problem. Ends with a message if a result is wrong."""
    status, first, link = client.list(limit=2)
    expect_equal("status of the list", status, 200)
    expect_equal("items of the first page", len(first), 2)
    status, second, _ = client.list(limit=2, cursor=cursor_of(link))
    expect_equal("items of the second page", (status, len(second)), (200, 2))
    expect_equal("the same items", first == second, False)

    status, made = client.create({"title": "Made by a generated client", "condition": "Seen.", "severity": "low"})
    expect_equal("status of the new finding", status, 201)
    expect_equal("id of the new finding", isinstance(made, str), True)

    content = os.urandom(100_000)
    status, sha256 = client.upload(content)
    expect_equal("status of the upload", status, 201)
    expect_equal("sha256 of the upload", sha256, hashlib.sha256(content).hexdigest())

    expect_equal("problem of an unknown id", client.read("nothing"), (404, "not_found"))
