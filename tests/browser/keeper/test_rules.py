"""The keeper's pure parts: tenure, addresses, requests, frames."""

from __future__ import annotations

import pytest

from lessor.browser.keeper import websocket
from lessor.browser.keeper.egress import http
from lessor.browser.keeper.egress.address import Policy, is_public, parse, split_authority
from lessor.browser.keeper.launch import KeeperFailed
from lessor.browser.keeper.tenure import Tenure


def tenure() -> Tenure:
    return Tenure(epoch=3, until_ms=1000, secret="right", max_ttl_ms=5000)


def test_a_higher_epoch_brings_its_own_deadline_and_the_same_one_never_a_nearer() -> None:
    held = tenure()
    assert held.admit(3, 900, "right", now_ms=500) is None
    assert held.deadline_ms == 1000
    assert held.admit(4, 900, "right", now_ms=500) is None
    assert (held.epoch, held.deadline_ms) == (4, 900)
    assert held.extend(3, 2000, now_ms=500) == "stale_epoch"
    assert held.deadline_ms == 900


@pytest.mark.parametrize(
    ("until_ms", "now_ms", "reason"),
    [(2000, 1000, "too_late"), (500, 500, "bad_deadline"), (5501, 500, "bad_deadline"), (5500, 500, None)],
)
def test_a_deadline_lies_ahead_within_its_bound_and_none_is_revived(
    until_ms: int, now_ms: int, reason: str | None
) -> None:
    assert tenure().extend(3, until_ms, now_ms) == reason
    assert tenure().admit(3, until_ms, "right", now_ms) == reason


def test_a_refused_admission_changes_nothing() -> None:
    held = tenure()
    assert held.admit(9, 2000, "wrong", now_ms=500) == "bad_secret"
    assert held.admit(2, 2000, "right", now_ms=500) == "stale_epoch"
    assert (held.epoch, held.deadline_ms) == (3, 1000)


@pytest.mark.parametrize("text", ["93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946", "64:ff9b::808:808"])
def test_public_addresses_are_public(text: str) -> None:
    address = parse(text)
    assert address is not None
    assert is_public(address)


def test_a_named_host_may_be_private_but_not_where_clouds_keep_secrets() -> None:
    policy = Policy(["Intra.Example.:80", "169.254.169.254:80"])
    private, metadata = parse("10.0.0.1"), parse("169.254.169.254")
    assert private is not None
    assert metadata is not None
    assert policy.permits("intra.example", 80, private)
    assert not policy.permits("intra.example", 81, private)
    assert not policy.permits("intra.example", 80, metadata)
    assert policy.permits("169.254.169.254", 80, metadata)


@pytest.mark.parametrize(
    ("authority", "split"),
    [
        ("A.example.:443", ("a.example", 443)),
        ("[::1]:80", ("::1", 80)),
        ("a.example", None),
        ("a.example:0", None),
        ("a.example:65536", None),
        (":80", None),
    ],
)
def test_authorities(authority: str, split: tuple[str, int] | None) -> None:
    assert split_authority(authority) == split


def test_a_forwarded_request_loses_its_hop_by_hop_headers() -> None:
    request = http.Request(
        b"POST http://a.example:8080/x?y=http://z/ HTTP/1.1\r\nHost: a.example:8080\r\n"
        b"Proxy-Connection: keep-alive\r\nContent-Length: 5\r\nConnection: keep-alive"
    )
    assert (request.host, request.port, request.body_bytes) == ("a.example", 8080, 5)
    assert request.head == (
        b"POST /x?y=http://z/ HTTP/1.1\r\nHost: a.example:8080\r\nContent-Length: 5\r\nConnection: close\r\n\r\n"
    )


@pytest.mark.parametrize(
    "head",
    [
        b"GET http://user@a.example/ HTTP/1.1",
        b"GET ftp://a.example/ HTTP/1.1",
        b"POST http://a.example/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2",
        b"POST http://a.example/ HTTP/1.1\r\nTransfer-Encoding: chunked",
        b"CONNECT a.example HTTP/1.1",
    ],
)
def test_ambiguous_requests_are_refused(head: bytes) -> None:
    with pytest.raises(http.Refused):
        http.Request(head)


@pytest.mark.parametrize("length", [0, 125, 126, 65535, 65536])
def test_frames_arrive_whole_however_they_are_cut(length: int) -> None:
    payload = bytes(number % 251 for number in range(length))
    mask = b"\x11\x22\x33\x44"
    masked = bytes(byte ^ mask[index % 4] for index, byte in enumerate(payload))
    head = bytearray(websocket.header(websocket.TEXT, length))
    head[1] |= 0x80
    data = bytes(head) + mask + masked
    frames = websocket.Frames()
    seen = [message for cut in (data[:1], data[1:5], data[5:]) for message in frames.feed(cut)]
    assert seen == [(websocket.TEXT, payload)]


def test_unmasked_and_oversized_frames_break_the_connection() -> None:
    for data in (b"\x81\x01a", b"\x81\xff" + (1 << 40).to_bytes(8, "big") + b"\0" * 4):
        with pytest.raises(websocket.Broken):
            list(websocket.Frames().feed(data))


def test_a_browser_without_user_namespaces_says_what_to_do() -> None:
    failed = KeeperFailed("browser_hung_up", "[1:1:ERROR:zygote_host_impl_linux.cc(130)] No usable sandbox! If this is")
    assert "user.max_user_namespaces" in str(failed)
    assert KeeperFailed("browser_exited", "Segmentation fault").remedy == ""
