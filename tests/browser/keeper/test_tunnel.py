"""What a tunnel and an exchange pass on, byte by byte."""

from __future__ import annotations

import pytest

from lessor.browser.keeper.egress import http
from lessor.browser.keeper.egress.exchange import Exchange
from lessor.browser.keeper.egress.tunnel import FORGED, IS_TLS13, Records, Tunnel

HELLO = b"\x02h2\x08http/1.1"
WS_HELLO = b"\x08http/1.1"


def record(kind: int, payload: bytes) -> bytes:
    return bytes((kind, 3, 3)) + len(payload).to_bytes(2) + payload


ANSWER = record(23, b"a" * 400)
GOODBYE = record(23, b"g" * 19)


def asked(hello: bytes = HELLO, server: bytes = IS_TLS13, opening: int = 87) -> Tunnel:
    """A tunnel in which the browser waits for an answer."""
    tunnel = Tunnel()
    tunnel.from_browser(record(22, hello))
    tunnel.from_server(record(22, server))
    tunnel.from_browser(record(23, b"finished"))
    tunnel.from_browser(record(23, bytes(opening)))
    return tunnel


@pytest.mark.parametrize("cut", range(1, 20))
def test_records_are_counted_however_they_are_cut(cut: int) -> None:
    stream = record(22, b"") + record(23, b"abc") + record(21, b"de")
    records = Records()
    begun = [one for at in range(0, len(stream), cut) for one in records.feed(stream[at : at + cut])]
    assert begun == [(22, 0), (23, 3), (21, 2)]
    assert records.is_between


def test_an_answer_passes_at_once_and_so_does_a_goodbye_after_it() -> None:
    tunnel = asked()
    assert tunnel.from_server(ANSWER) == ANSWER
    assert tunnel.from_server(GOODBYE) == GOODBYE
    assert tunnel.end(is_cut=False) == b""


def test_a_goodbye_instead_of_an_answer_is_never_seen() -> None:
    tunnel = asked()
    assert tunnel.from_server(GOODBYE) == b""
    assert tunnel.holds_back
    assert tunnel.decide() is None
    assert tunnel.end(is_cut=False) == FORGED


def test_what_looked_like_a_goodbye_passes_with_what_follows() -> None:
    tunnel = asked()
    assert tunnel.from_server(GOODBYE[:7]) == b""
    assert tunnel.from_server(GOODBYE[7:] + ANSWER) == GOODBYE + ANSWER
    assert not tunnel.holds_back


def test_a_short_message_of_a_websocket_passes_when_nothing_follows() -> None:
    tunnel = asked(WS_HELLO)
    assert tunnel.from_server(GOODBYE) == b""
    assert tunnel.decide() == GOODBYE


@pytest.mark.parametrize("passed", [1, 3, 4, 5, 6, 404])
def test_an_end_amid_an_answer_spoils_the_record_under_way(passed: int) -> None:
    """The browser sees a whole record that is not what the server sealed."""
    tunnel = asked()
    tunnel.from_server(ANSWER + ANSWER[:passed])
    seen = ANSWER[:passed] + tunnel.end(is_cut=False)
    assert seen[0] == 23
    assert len(seen) >= 5 + int.from_bytes(seen[3:5])
    assert not seen.startswith(ANSWER)


def test_a_bare_end_is_passed_on_where_it_can_be_an_answers_own() -> None:
    """Where HTTP/1 is spoken, that is: TLS 1.2 shows the choice, the size of the first request tells it in 1.3."""
    chose = b"\x00\x10\x00\x05\x00\x03\x02h2"
    http1 = (asked(server=b"old"), asked(WS_HELLO), asked(opening=500))
    for tunnel, is_plain in (*((one, True) for one in http1), (asked(), False), (asked(server=chose), False)):
        tunnel.from_server(ANSWER)
        assert (tunnel.end(is_cut=False) == b"") is is_plain
        assert tunnel.end(is_cut=True) == FORGED


def test_an_end_before_any_request_is_an_end() -> None:
    tunnel = Tunnel()
    tunnel.from_browser(record(22, HELLO))
    assert tunnel.from_server(record(21, b"\2\50")) == record(21, b"\2\50")
    assert tunnel.end(is_cut=True) == b""
    plain = Tunnel()
    plain.from_browser(b"GET /chat HTTP/1.1\r\n\r\n")
    assert plain.from_server(b"x") == b"x"
    assert plain.end(is_cut=True) == b""


def exchange() -> Exchange:
    return Exchange(http.Request(b"POST http://a.example/ HTTP/1.1\r\nContent-Length: 2"))


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200 O", b"HTTP/1.1 100 Continue\r\n\r\n", b"\0garbage"])
def test_a_request_that_got_no_answer_gets_one(said: bytes) -> None:
    exchanged = exchange()
    exchanged.from_server(said)
    assert exchanged.end(is_cut=False).startswith(b"HTTP/1.1 502 ")


def test_an_answer_is_passed_on_and_closes_the_connection() -> None:
    exchanged = exchange()
    assert exchanged.from_browser(b"ab") == b"ab"
    answer = exchanged.from_server(
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nConnection: keep-alive\r\n\r\nrest"
    )
    assert answer == b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nConnection: close\r\n\r\nrest"
    assert exchanged.end(is_cut=True) == b""
    with pytest.raises(http.Refused):
        exchanged.from_browser(b"GET")
