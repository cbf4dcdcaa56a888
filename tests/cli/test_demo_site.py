"""The demo site keeps its word: it is what every scenario holds lessor's answers against."""

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from socket import create_connection
from urllib.parse import urlencode

import pytest

from lessor.cli.demo.site import Site
from lessor.cli.demo.site_log import LOGINS_FILE, SUBMISSIONS_FILE

FORM = "application/x-www-form-urlencoded"


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    text: str

    @property
    def json(self) -> dict[str, object]:
        return dict(json.loads(self.text))


class Visitor:
    """A browser without a page: one connection per request, one cookie."""

    def __init__(self, port: int, cookie: str = "") -> None:
        self.port = port
        self.cookie = cookie

    def ask(self, method: str, path: str, body: str | None = None, content_type: str = FORM) -> Reply:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request(method, path, body, {"Cookie": self.cookie, "Content-Type": content_type})
            reply: HTTPResponse = connection.getresponse()
            return Reply(reply.status, dict(reply.getheaders()), reply.read().decode())
        finally:
            connection.close()

    def get(self, path: str) -> Reply:
        return self.ask("GET", path)

    def post(self, path: str, **form: str) -> Reply:
        return self.ask("POST", path, urlencode(form))

    def switch(self, **changes: object) -> Reply:
        return self.ask("POST", "/switches", json.dumps(changes), "application/json")

    def log_in(self, **form: str) -> Reply:
        reply = self.post("/login", **{"user": "demo", "password": "demo", **form})
        self.cookie = reply.headers.get("Set-Cookie", "").partition(";")[0]
        return reply

    def submit(self, key: str = "k1", number: str = "INV-1", amount: str = "10.00") -> Reply:
        return self.post("/invoices", request_key=key, number=number, amount=amount)


class Submitting(threading.Thread):
    """A submission whose answer is awaited elsewhere; `outcome` is its status, or why there is none."""

    def __init__(self, visitor: Visitor, key: str = "k1") -> None:
        super().__init__()
        self.visitor, self.key = visitor, key
        self.outcome: int | str = "no answer yet"
        self.start()

    def run(self) -> None:
        try:
            self.outcome = self.visitor.submit(self.key).status
        except (OSError, HTTPException) as error:
            self.outcome = type(error).__name__

    def settled(self) -> int | str:
        self.join(10)
        assert not self.is_alive()
        return self.outcome


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with Site(tmp_path / "site") as site:
        yield site


@pytest.fixture
def visitor(site: Site) -> Visitor:
    visitor = Visitor(site.port)
    visitor.log_in()
    return visitor


def raw_submission(visitor: Visitor) -> bytes:
    body = urlencode({"request_key": "k1", "number": "1", "amount": "1"})
    head = f"Host: x\r\nCookie: {visitor.cookie}\r\nContent-Length: {len(body)}\r\n\r\n"
    return f"POST /invoices HTTP/1.1\r\n{head}{body}".encode()


def keys(site: Site) -> list[str]:
    return [submission.request_key for submission in site.submissions()]


def test_a_page_without_the_cookie_leads_to_the_login_and_back(site: Site) -> None:
    stranger = Visitor(site.port)

    reply = stranger.get("/invoices/new?key=k1")
    assert (reply.status, reply.headers["Location"]) == (303, "/login?next=%2Finvoices%2Fnew%3Fkey%3Dk1")
    assert 'value="/invoices/new?key=k1"' in stranger.get(reply.headers["Location"]).text

    reply = stranger.log_in(next="/invoices/new?key=k1")
    assert (reply.status, reply.headers["Location"]) == (303, "/invoices/new?key=k1")
    assert stranger.get("/invoices/new").status == 200


@pytest.mark.parametrize("elsewhere", ["//evil.test/", "/\\evil.test", "http://evil.test/", "/a\r\nX: 1"])
def test_the_login_leads_nowhere_else(site: Site, elsewhere: str) -> None:
    assert Visitor(site.port).log_in(next=elsewhere).headers["Location"] == "/invoices/new"


def test_the_cookie_is_a_session_cookie_that_scripts_cannot_read(site: Site) -> None:
    attributes = Visitor(site.port).log_in().headers["Set-Cookie"].split("; ")[1:]
    assert attributes == ["Path=/", "HttpOnly", "SameSite=Lax"]


@pytest.mark.parametrize("form", [{"password": "guess"}, {"user": "nobody"}, {"user": "nobody", "password": ""}])
def test_a_wrong_login_gets_401_and_no_cookie(site: Site, form: dict[str, str]) -> None:
    reply = Visitor(site.port).log_in(**form)
    assert reply.status == 401
    assert "Wrong user or password" in reply.text
    assert "Set-Cookie" not in reply.headers


def test_a_forged_cookie_records_nothing(site: Site, visitor: Visitor) -> None:
    forger = Visitor(site.port, visitor.cookie[:-1] + ("0" if visitor.cookie[-1] != "0" else "1"))
    assert forger.submit().headers["Location"] == "/login"
    assert site.submissions() == []


def test_a_submission_is_on_disk_before_it_is_confirmed(site: Site, visitor: Visitor, tmp_path: Path) -> None:
    reply = visitor.submit("key-7", "INV-7", "12.50")

    assert reply.status == 200
    assert "INV-7" in reply.text
    assert "key-7" in reply.text
    (line,) = (tmp_path / "site" / SUBMISSIONS_FILE).read_text().splitlines()
    entry = json.loads(line)
    assert {"at_unix_ms", "request_key", "number", "amount", "session"} == entry.keys()
    assert (entry["request_key"], entry["number"], entry["amount"]) == ("key-7", "INV-7", "12.50")
    assert entry["session"] in visitor.cookie
    assert entry["session"] != visitor.cookie.partition("=")[2]
    assert [entry] == visitor.get("/log").json["submissions"]


def test_duplicates_are_visible(site: Site, visitor: Visitor) -> None:
    visitor.submit()
    visitor.submit()
    assert keys(site) == ["k1", "k1"]
    assert visitor.get("/api/invoices?key=k1").json["count"] == 2


def test_an_idempotent_site_refuses_the_second_use_of_a_key(site: Site, visitor: Visitor) -> None:
    site.set(idempotent=True)
    assert [visitor.submit(key).status for key in ("k1", "k1", "k2")] == [200, 409, 200]
    assert keys(site) == ["k1", "k2"]


def test_an_idempotent_site_takes_one_of_many_at_once(site: Site, visitor: Visitor) -> None:
    site.set(idempotent=True)
    tries = [Submitting(visitor) for _ in range(8)]
    assert sorted(int(one.settled()) for one in tries) == [200] + [409] * 7
    assert keys(site) == ["k1"]


@pytest.mark.parametrize("form", [("", "1", "1"), ("k", "", "1"), ("k", "1", "free"), ("k" * 201, "1", "1")])
def test_an_incomplete_form_is_not_recorded(site: Site, visitor: Visitor, form: tuple[str, str, str]) -> None:
    assert visitor.submit(*form).status == 422
    assert site.submissions() == []


def test_what_a_visitor_writes_is_text_on_every_page(site: Site, visitor: Visitor) -> None:
    tag = "<script>alert(1)</script>"
    pages = [
        visitor.submit(tag, tag),
        visitor.get("/invoices"),
        visitor.get("/invoices/new?" + urlencode({"key": tag})),
    ]
    assert [tag in page.text for page in pages] == [False, False, False]


def test_the_look_up_needs_a_key_and_no_cookie(site: Site, visitor: Visitor) -> None:
    visitor.submit()
    stranger = Visitor(site.port)
    assert [stranger.get(f"/api/invoices{query}").status for query in ("?key=k1", "?key=k2", "")] == [
        200,
        404,
        400,
    ]
    assert stranger.get("/api/invoices?key=k1").json["found"] is True
    assert stranger.get("/api/invoices?key=k2").json["found"] is False


def test_a_dropped_answer_is_recorded(site: Site, visitor: Visitor) -> None:
    assert visitor.switch(answer="drop", times=1).json["answer"] == "drop"
    assert Submitting(visitor).settled() == "RemoteDisconnected"
    assert keys(site) == ["k1"]
    assert visitor.submit("k2").status == 200


@pytest.mark.parametrize(("answer", "seen"), [("error", 500), ("garbage", "BadStatusLine")])
def test_a_broken_answer_is_recorded(site: Site, visitor: Visitor, answer: str, seen: int | str) -> None:
    site.set(answer=answer)
    assert seen == Submitting(visitor).settled()
    assert keys(site) == ["k1"]


def test_a_doubled_answer_is_one_submission(site: Site, visitor: Visitor) -> None:
    site.set(answer="double")
    with (
        create_connection(("127.0.0.1", site.port), timeout=10) as connection,
        connection.makefile("rb") as answers,
    ):
        connection.sendall(raw_submission(visitor))
        assert answers.read().count(b"HTTP/1.1 200 OK") == 2
    assert keys(site) == ["k1"]


def test_a_held_answer_waits_for_its_release(site: Site, visitor: Visitor) -> None:
    visitor.switch(answer="hold")
    submitting = Submitting(visitor)

    held = visitor.get("/held?wait_s=10").json["held"]
    assert held == [{"request_key": "k1", "number": "INV-1", "recorded": True}]
    assert keys(site) == ["k1"]
    assert submitting.is_alive()

    assert visitor.ask("POST", "/release", "").json == {"released": 1}
    assert visitor.get("/held").json["held"] == []
    assert submitting.settled() == 200


def test_s24_a_delayed_record_comes_after_a_look_up_that_saw_nothing(site: Site, visitor: Visitor) -> None:
    site.set(record_delay_s=60, times=1)
    submitting = Submitting(visitor)

    (held,) = site.held(10)
    assert held.recorded is False
    assert visitor.get("/api/invoices?key=k1").status == 404
    site.release()
    assert submitting.settled() == 200
    assert visitor.get("/api/invoices?key=k1").status == 200


def test_a_delayed_record_comes_even_if_its_sender_has_left(tmp_path: Path) -> None:
    with Site(tmp_path) as site:
        visitor = Visitor(site.port)
        visitor.log_in()
        site.set(record_delay_s=60)
        with create_connection(("127.0.0.1", site.port), timeout=10) as connection:
            connection.sendall(raw_submission(visitor))
            assert len(site.held(10)) == 1
        site.release()
    assert '"request_key":"k1"' in (tmp_path / SUBMISSIONS_FILE).read_text()


def test_a_delay_ends_by_itself(site: Site, visitor: Visitor) -> None:
    site.set(answer="delay", delay_s=0.01, record_delay_s=0.01)
    assert visitor.submit().status == 200


@pytest.mark.parametrize(
    "changes",
    [
        {"anwser": "drop"},
        {"answer": "explode"},
        {"delay_s": -1},
        {"delay_s": 121},
        {"delay_s": True},
        {"times": 0},
        {"times": 1.5},
        {"idempotent": 1},
        {"amounts": {"INV-9": "1"}},
        {"amounts": {}},
        {"amounts": {"INV-101": 1}},
    ],
)
def test_a_switch_that_is_not_understood_changes_nothing(site: Site, changes: dict[str, object]) -> None:
    before = site.switches
    reply = Visitor(site.port).switch(**{"keep_alive": True, **changes})
    assert reply.status == 400
    assert next(iter(changes)) in str(reply.json["error"])
    assert before == site.switches


def test_a_form_of_a_page_cannot_switch(site: Site) -> None:
    assert Visitor(site.port).ask("POST", "/switches", '{"answer": "drop"}', "text/plain").status == 415
    assert Visitor(site.port).ask("POST", "/switches", "[]", "application/json").status == 400


def test_every_login_is_on_record(site: Site, tmp_path: Path) -> None:
    stranger = Visitor(site.port)
    stranger.log_in()
    assert stranger.log_in(password="wrong").status == 401

    logins = [json.loads(line) for line in (tmp_path / "site" / LOGINS_FILE).read_text().splitlines()]
    assert [login["user"] for login in logins] == ["demo"]


def test_a_lost_submission_is_held_and_never_recorded(site: Site, visitor: Visitor) -> None:
    site.set(answer="lose", times=1)
    lost = Submitting(visitor)
    assert [(held.request_key, held.recorded) for held in site.held(5)] == [("k1", False)]
    site.release()
    assert lost.settled() == "RemoteDisconnected"
    assert keys(site) == []


def test_a_restarted_site_knows_its_sessions_and_its_log(tmp_path: Path) -> None:
    with Site(tmp_path) as first:
        visitor = Visitor(first.port)
        visitor.log_in()
        visitor.submit("k1")
    with Site(tmp_path, port=first.port) as second:
        assert visitor.submit("k2").status == 200
        assert keys(second) == ["k1", "k2"]


def test_closing_sends_held_submissions_away(tmp_path: Path) -> None:
    with Site(tmp_path) as site:
        visitor = Visitor(site.port)
        visitor.log_in()
        site.set(record_delay_s=60)
        submitting = Submitting(visitor)
        assert len(site.held(10)) == 1
    assert submitting.settled() == "RemoteDisconnected"
    assert (tmp_path / SUBMISSIONS_FILE).read_text() == ""


def test_s22_the_strict_form_is_checked_in_the_page(visitor: Visitor) -> None:
    assert "pattern=" in visitor.get("/invoices/strict").text
    assert "pattern=" not in visitor.get("/invoices/new").text


def test_b16_amounts_change_by_switch_and_an_approval_records_the_amount_of_its_time(site: Site) -> None:
    visitor = Visitor(site.port)
    site.set(amounts={"INV-101": "999.00"})

    assert visitor.get("/table/amounts").json["INV-101"] == "999.00"
    assert "999.00" in visitor.get("/table").text
    assert visitor.post("/table", number="INV-101").status == 303
    assert visitor.post("/table", number="INV-9").status == 422
    (approval,) = site.approvals()
    assert (approval["number"], approval["amount"]) == ("INV-101", "999.00")


def test_f16_ticks_are_logged(site: Site) -> None:
    visitor = Visitor(site.port)
    ticks = [visitor.get("/tick").json["tick"] for _ in range(3)]
    assert ticks == site.ticks()
    assert "fetch(" in visitor.get("/counter").text


def test_the_slow_page_has_a_limit(site: Site) -> None:
    statuses = [Visitor(site.port).get(f"/slow?s={s}").status for s in ("0.01", "121", "nan", "x")]
    assert statuses == [200, 400, 400, 400]
    assert Visitor(site.port).get("/loop").status == 200


def test_connections_close_after_each_answer_unless_kept_alive(site: Site) -> None:
    connection = HTTPConnection("127.0.0.1", site.port, timeout=10)
    seen: list[bool] = []
    for keep_alive in (False, True):
        site.set(keep_alive=keep_alive)
        connection.request("GET", "/login")
        connection.getresponse().read()
        seen.append(connection.sock is not None)
    connection.close()
    assert seen == [False, True]


@pytest.mark.parametrize("length", ["65537", "-1", "many"])
def test_a_body_has_a_limit(site: Site, length: str) -> None:
    connection = HTTPConnection("127.0.0.1", site.port, timeout=10)
    connection.putrequest("POST", "/login")
    connection.putheader("Content-Length", length)
    connection.endheaders()
    assert connection.getresponse().status == 413
    connection.close()


def start(directory: Path, *more: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "lessor.cli.demo.site", "--directory", str(directory), *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_the_command_says_when_it_is_ready_and_ends_on_sigterm(tmp_path: Path) -> None:
    with start(tmp_path, "--seed-user", "ada:secret") as process:
        assert process.stdout is not None
        visitor = Visitor(json.loads(process.stdout.readline())["port"])
        assert visitor.log_in().status == 401
        assert visitor.log_in(user="ada", password="secret").status == 303
        assert visitor.submit().status == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0


def test_the_command_dies_with_its_parent(tmp_path: Path) -> None:
    """The parent, a shell, starts the site; the pipe that both write to ends only with both."""
    script = '"$0" -m lessor.cli.demo.site --directory "$1" & read forever'
    with subprocess.Popen(
        ["/bin/sh", "-c", script, sys.executable, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        assert "port" in json.loads(parent.stdout.readline())
        parent.kill()
        assert parent.stdout.read() == ""
