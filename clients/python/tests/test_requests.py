from __future__ import annotations

import logging
import traceback

import httpx
import pytest
from api import KEY, URL, Api, ok, problem

import postern


def page(items: list[dict[str, str]], link: str | None) -> httpx.Response:
    return ok(items, {} if link is None else {"link": f'<{link}>; rel="next"'})


def feed_page(changes: list[dict[str, str]], position: str) -> httpx.Response:
    return ok(changes, {"postern-next-since": position})


@pytest.mark.parametrize(
    "link", ["/api/v1/findings?cursor=2", f"{URL}/api/v1/findings?cursor=2", "https://postern.example:443/api/v1/findings?cursor=2"]
)
def test_a_list_follows_links_to_its_own_origin(link: str) -> None:
    api = Api(page([{"id": "1"}], link), page([], "?cursor=3"), page([{"id": "2"}], None))
    assert [finding["id"] for finding in api.client().findings.list(limit=1)] == ["1", "2"]
    assert [str(request.url) for request in api.requests[:2]] == [
        f"{URL}/api/v1/findings?limit=1",
        f"{URL}/api/v1/findings?cursor=2",
    ]


def test_a_list_knows_what_to_send_as_updated_since_the_next_time() -> None:
    mark = "2026-11-21T09:30:00.000Z_42"
    first = ok([{"id": "1"}], {"postern-next-updated-since": mark, "link": '</api/v1/findings?cursor=2>; rel="next"'})
    api = Api(first, ok([], {"postern-next-updated-since": mark}), page([], None))
    findings = api.client().findings.list()
    assert findings.next_updated_since is None
    assert len(findings.all()) == 1 and findings.next_updated_since == mark
    api.client().findings.list(updated_since=mark).all()
    assert api.requests[2].url.params["updated_since"] == mark


@pytest.mark.parametrize(
    "link",
    [
        "https://elsewhere.example/api/v1/findings?cursor=2",
        "//elsewhere.example/api/v1/findings?cursor=2",
        "http://postern.example/api/v1/findings?cursor=2",
        "https://postern.example:8443/api/v1/findings?cursor=2",
        "https://postern.example@elsewhere.example/api/v1/findings",
    ],
)
def test_a_link_to_another_origin_is_not_followed(link: str) -> None:
    api = Api(page([{"id": "1"}], link))
    with pytest.raises(postern.ForeignLinkError):
        api.client().findings.list().all()
    assert len(api.requests) == 1


@pytest.mark.parametrize("path", ["/api/v1/findings", "/audit/api/v1/findings", "/inside/api/v1/findings"])
def test_a_link_keeps_the_path_of_the_proxy_by_whatever_name_the_gateway_knows_it(path: str) -> None:
    api = Api(page([], f"{path}?cursor=2"), page([], None))
    api.client(f"{URL}/audit/").findings.list().all()
    assert [request.url.path for request in api.requests] == ["/audit/api/v1/findings"] * 2


@pytest.mark.parametrize(
    ("link", "found"),
    [
        (None, None),
        ('</a>; rel="prev"', None),
        ('</a>; rel="prev", </b>; rel="next"', "/b"),
        ('</b>; title="a, b"; rel="last next"', "/b"),
        ("</b>; rel=next", "/b"),
    ],
)
def test_the_next_page_is_found_among_several_links(link: str | None, found: str | None) -> None:
    from postern._address import next_link

    assert next_link(link) == found


def test_filters_are_sent_as_the_api_reads_them() -> None:
    api = Api(page([], None))
    api.client().findings.list(severity=["critical", "high"], overdue=True, q="a&b").all()
    assert api.requests[0].url.query == b"severity=critical&severity=high&overdue=true&q=a%26b"


def test_a_filter_that_is_a_word_of_python_has_an_underscore() -> None:
    api = Api(page([], None))
    api.client().hierarchies.diff("org", from_=1, to=2).all()
    assert api.requests[0].url.query == b"from=1&to=2"


def test_an_empty_filter_is_rejected() -> None:
    with pytest.raises(ValueError, match="severity is an empty list"):
        Api().client().findings.list(severity=[])


@pytest.mark.parametrize(
    ("address", "path"),
    [
        ("ref:F-2026-0042", "ref:F-2026-0042"),
        ("ext:SAP 4711", "ext:SAP%204711"),
        ("ext:a/b", "ext64:YS9i"),
        ("../api-keys", "..%2Fapi-keys"),
        ("a?b#c", "a%3Fb%23c"),
    ],
)
def test_an_address_stays_within_its_path(address: str, path: str) -> None:
    api = Api(ok({}))
    api.client().findings.get(address)
    assert api.requests[0].url.raw_path.decode() == f"/api/v1/findings/{path}"


@pytest.mark.parametrize("address", ["", ".", ".."])
def test_an_address_that_names_nothing_is_rejected(address: str) -> None:
    with pytest.raises(ValueError, match="address"):
        Api().client().findings.get(address)


def test_a_change_sends_the_entity_tag_of_the_resource() -> None:
    api = Api(ok({"id": "1"}, {"etag": '"3"'}), ok({"id": "1"}))
    client = api.client()
    client.findings.update(client.findings.get("ref:F-1"), {"severity": "low"})
    assert api.requests[1].headers["if-match"] == '"3"'
    assert api.requests[1].headers["content-type"] == "application/merge-patch+json"


def test_a_change_without_entity_tag_is_rejected() -> None:
    with pytest.raises(ValueError, match="if_match"):
        Api().client().findings.update("1", {"severity": "low"})


def test_an_edit_starts_again_if_somebody_was_faster() -> None:
    api = Api(
        ok({"id": "1", "title": "a"}, {"etag": '"1"'}),
        problem(412, "precondition_failed"),
        ok({"id": "1", "title": "b"}, {"etag": '"2"'}),
        ok({"id": "1", "title": "b!"}),
    )
    edited = api.client().findings.edit("1", lambda finding: {"title": finding["title"] + "!"})
    assert edited["title"] == "b!"
    assert api.requests[3].headers["if-match"] == '"2"'


def test_an_edit_ends_after_five_attempts() -> None:
    answers = [ok({"id": "1"}, {"etag": '"1"'}), problem(412, "precondition_failed")] * 5
    api = Api(*answers)
    with pytest.raises(postern.PreconditionFailedError):
        api.client().findings.edit("1", lambda _finding: {"title": "x"})
    assert api.answers == []


def test_changes_keep_the_position_after_each_whole_page() -> None:
    api = Api(
        feed_page([{"id": "1"}, {"id": "2"}], "b"),
        feed_page([], "c"),
        feed_page([{"id": "3"}], "d"),
        feed_page([], "d"),
    )
    feed = api.client().changes("a")
    seen = [(change["id"], feed.position) for change in feed]
    assert seen == [("1", "a"), ("2", "a"), ("3", "c")]
    assert feed.position == "d"


def test_changes_since_now_are_a_position_only() -> None:
    feed = Api(feed_page([], "b")).client().changes("now")
    assert list(feed) == []
    assert feed.position == "b"


@pytest.mark.parametrize("url", ["postern.example", "ftp://x.example", f"{URL}/api/v1/", f"{URL}?a=1", "https://u:p@x.example"])
def test_an_address_of_something_else_is_rejected(url: str) -> None:
    with pytest.raises(ValueError, match="without /api/v1"):
        postern.Client(url, KEY)


@pytest.mark.parametrize("key", [KEY[:-1], KEY + "\n", "Bearer x", ""])
def test_what_is_no_key_is_rejected_and_not_repeated(key: str) -> None:
    with pytest.raises(ValueError, match="whole Postern API key") as caught:
        postern.Client(URL, key)
    assert key == "" or key not in str(caught.value)


def test_a_token_is_read_before_each_request_and_never_shown() -> None:
    tokens = ["one", "two", "bad\nvalue"]
    api = Api(ok({}), ok({}))
    client = postern.Client(URL, token=lambda: tokens.pop(0), transport=httpx.MockTransport(api.handle))
    client.whoami()
    client.whoami()
    assert [request.headers["authorization"] for request in api.requests] == ["Bearer one", "Bearer two"]
    with pytest.raises(ValueError, match="access token") as caught:
        client.whoami()
    assert "bad" not in str(caught.value)


def test_the_key_is_in_the_header_and_nowhere_else(caplog: pytest.LogCaptureFixture) -> None:
    api = Api(ok({}), problem(404, "not_found"), httpx.ReadError("reset"))
    client = api.client(retries=0)
    with caplog.at_level(logging.DEBUG):
        client.whoami()
        with pytest.raises(postern.NotFoundError) as rejected:
            client.findings.get("1")
        with pytest.raises(postern.ConnectionFailedError) as failed:
            client.findings.get("1")
    assert [request.headers["authorization"] for request in api.requests] == [f"ApiKey {KEY}"] * 3
    texts = [caplog.text, repr(client), repr(vars(client)), repr(vars(client._connection))]
    for error in (rejected.value, failed.value):
        # What error trackers send: the error, those before it, and the variables of each frame.
        assert error.__cause__ is None and error.__context__ is None
        report = traceback.TracebackException.from_exception(error, capture_locals=True)
        texts += [str(error), repr(error), repr(vars(error)), "".join(report.format())]
    texts += [str(request.url) for request in api.requests]
    assert [text for text in texts if KEY in text] == []
