"""What the demo site answers: login and invoices, the look-up and the switches, the test pages."""

import json
import re
from http import HTTPStatus
from typing import Final, cast

from lessor.cli.demo import site_pages
from lessor.cli.demo.site_books import unix_ms
from lessor.cli.demo.site_http import COOKIE, Exchange, Routes
from lessor.cli.demo.site_log import Submission
from lessor.cli.demo.site_switches import PAUSE_S_MAX, Answer, Held, Passed, Switches

_TEXT: Final = re.compile(r"\S(.{0,198}\S)?")
_AMOUNT: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,2})?")
_LOCAL_PATH: Final = re.compile(r"/(?![/\\])[\x21-\x7e]*")
_GARBAGE: Final = b"\x00\x16\xff not HTTP \xfe\r\n" * 8


def _login_form(exchange: Exchange) -> None:
    exchange.send_page(site_pages.login(exchange.query.get("next", "")))


def _log_in(exchange: Exchange) -> None:
    form = exchange.form
    wanted = form.get("next", "")
    cookie = exchange.books.logins.log_in(form.get("user", ""), form.get("password", ""))
    if cookie is None:
        exchange.send_page(site_pages.login(wanted, wrong=True), HTTPStatus.UNAUTHORIZED)
        return
    path = wanted if _LOCAL_PATH.fullmatch(wanted) else "/invoices/new"
    exchange.redirect(path, {"Set-Cookie": f"{COOKIE}={cookie}; Path=/; HttpOnly; SameSite=Lax"})


def _home(exchange: Exchange, _session: str) -> None:
    exchange.redirect("/invoices/new")


def _invoices(exchange: Exchange, _session: str) -> None:
    exchange.send_page(site_pages.invoices(exchange.books.submissions()))


def _invoice_form(exchange: Exchange, _session: str) -> None:
    key, number, amount = (exchange.query.get(name, "") for name in ("key", "number", "amount"))
    strict = exchange.target == "/invoices/strict"
    exchange.send_page(site_pages.invoice_form(key, number, amount, strict=strict))


def _submit(exchange: Exchange, session: str) -> None:
    key, number, amount = (exchange.form.get(name, "").strip() for name in ("request_key", "number", "amount"))
    if not (_TEXT.fullmatch(key) and _TEXT.fullmatch(number) and _AMOUNT.fullmatch(amount)):
        why = "Not submitted: number and request key are needed, and an amount such as 120.00."
        exchange.refuse(HTTPStatus.UNPROCESSABLE_ENTITY, why)
        return
    switches = exchange.books.switches_for_one()
    if switches.answer is Answer.LOSE:
        exchange.books.gate.pause(Held(key, number, recorded=False), PAUSE_S_MAX)
        exchange.leave()
        return
    if not _paused(exchange, Held(key, number, recorded=False), switches.record_delay_s):
        return
    submission = Submission(unix_ms(), key, number, amount, session)
    if exchange.books.record(submission, once=switches.idempotent):
        _answer(exchange, submission, switches)
    else:
        exchange.refuse(HTTPStatus.CONFLICT, f"Not submitted: request key {key} was used before.")


def _answer(exchange: Exchange, submission: Submission, switches: Switches) -> None:
    page = site_pages.confirmation(submission)
    held = Held(submission.request_key, submission.number, recorded=True)
    match switches.answer:
        case Answer.NORMAL:
            exchange.send_page(page)
        case Answer.DROP:
            exchange.leave()
        case Answer.DELAY:
            if _paused(exchange, held, switches.delay_s):
                exchange.send_page(page)
        case Answer.HOLD:
            if exchange.books.gate.pause(held, PAUSE_S_MAX) is Passed.RELEASED:
                exchange.send_page(page)
            else:
                exchange.leave()
        case Answer.DOUBLE:
            exchange.send_page(page)
            exchange.send_page(page)
        case Answer.GARBAGE:
            exchange.wfile.write(_GARBAGE)
            exchange.leave()
        case Answer.ERROR:
            exchange.refuse(HTTPStatus.INTERNAL_SERVER_ERROR, "Something went wrong.")
        case Answer.LOSE:
            raise AssertionError("what is lost is not recorded, and what is not recorded is not answered")


def _paused(exchange: Exchange, held: Held, pause_s: float) -> bool:
    """Wait out a delay, or its release. False when the site closes meanwhile: nothing more may happen."""
    if pause_s > 0 and exchange.books.gate.pause(held, pause_s) is Passed.CLOSED:
        exchange.leave()
        return False
    return True


def _look_up(exchange: Exchange) -> None:
    key = exchange.query.get("key", "")
    if not key:
        exchange.send_json({"error": "the query must name a key"}, HTTPStatus.BAD_REQUEST)
        return
    invoices = [one.as_json() for one in exchange.books.submissions(key)]
    found = {"found": bool(invoices), "count": len(invoices), "request_key": key, "invoices": invoices}
    exchange.send_json(found, HTTPStatus.OK if invoices else HTTPStatus.NOT_FOUND)


def _log(exchange: Exchange) -> None:
    exchange.send_json({"submissions": [one.as_json() for one in exchange.books.submissions()]})


def _show_switches(exchange: Exchange) -> None:
    exchange.send_json(exchange.books.switches.as_json())


def _set_switches(exchange: Exchange) -> None:
    """Wants a JSON content type, which no form of a page can send: an agent's page must not switch."""
    if exchange.headers.get_content_type() != "application/json":
        exchange.send_json({"error": "Content-Type must be application/json"}, HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
        return
    try:
        changes: object = json.loads(exchange.body)
    except ValueError:
        changes = None
    if not isinstance(changes, dict):
        exchange.send_json({"error": "the body must be a JSON object"}, HTTPStatus.BAD_REQUEST)
        return
    changed = exchange.books.change(cast("dict[str, object]", changes))
    if isinstance(changed, Switches):
        exchange.send_json(changed.as_json())
    else:
        exchange.send_json({"error": changed}, HTTPStatus.BAD_REQUEST)


def _held(exchange: Exchange) -> None:
    wait_s = exchange.seconds("wait_s", "0")
    if wait_s is not None:
        exchange.send_json({"held": [one.as_json() for one in exchange.books.held(wait_s)]})


def _release(exchange: Exchange) -> None:
    exchange.send_json({"released": exchange.books.release()})


def _slow(exchange: Exchange) -> None:
    wait_s = exchange.seconds("s", "1")
    if wait_s is None:
        return
    if exchange.books.gate.closed.wait(wait_s):
        exchange.leave()
    else:
        exchange.send_page(site_pages.slow(wait_s))


def _tick(exchange: Exchange) -> None:
    exchange.send_json({"tick": exchange.books.tick()})


def _table(exchange: Exchange) -> None:
    amounts = exchange.books.switches.amounts
    exchange.send_page(site_pages.table(amounts, clock=exchange.query.get("clock") == "1"))


def _approve(exchange: Exchange) -> None:
    if exchange.books.approve(exchange.form.get("number", "")):
        exchange.redirect("/table")
    else:
        exchange.refuse(HTTPStatus.UNPROCESSABLE_ENTITY, "Not approved: there is no such row.")


ROUTES: Final = Routes(
    open={
        ("GET", "/login"): _login_form,
        ("POST", "/login"): _log_in,
        ("GET", "/api/invoices"): _look_up,
        ("GET", "/log"): _log,
        ("GET", "/switches"): _show_switches,
        ("POST", "/switches"): _set_switches,
        ("GET", "/held"): _held,
        ("POST", "/release"): _release,
        ("GET", "/slow"): _slow,
        ("GET", "/loop"): lambda exchange: exchange.send_page(site_pages.loop()),
        ("GET", "/counter"): lambda exchange: exchange.send_page(site_pages.counter()),
        ("GET", "/tick"): _tick,
        ("GET", "/ticks"): lambda exchange: exchange.send_json({"ticks": exchange.books.ticks()}),
        ("GET", "/table"): _table,
        ("POST", "/table"): _approve,
        ("GET", "/table/amounts"): lambda exchange: exchange.send_json({**exchange.books.switches.amounts}),
        ("GET", "/approvals"): lambda exchange: exchange.send_json({"approvals": exchange.books.approvals()}),
    },
    behind_login={
        ("GET", "/"): _home,
        ("GET", "/invoices"): _invoices,
        ("POST", "/invoices"): _submit,
        ("GET", "/invoices/new"): _invoice_form,
        ("GET", "/invoices/strict"): _invoice_form,
    },
)
