"""The demo site's pages, as HTML. Plain forms: only the four test pages at the end carry a script."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

from lessor.cli.demo.site_log import Submission

_STYLE: Final = """
:root { --ink: #1d2733; --soft: #64748b; --line: #dbe2ea; --accent: #1f6feb;
  --paper: #fff; --ground: #f4f6f9; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
header { background: var(--paper); border-bottom: 1px solid var(--line); }
header div { max-width: 44rem; margin: 0 auto; padding: .9rem 1.5rem; display: flex; gap: 1.5rem; }
header strong { margin-right: auto; }
a { color: var(--accent); text-decoration: none; }
main { max-width: 44rem; margin: 2.5rem auto; padding: 2rem; background: var(--paper);
  border: 1px solid var(--line); border-radius: 10px; }
h1 { margin: 0 0 1.2rem; font-size: 1.4rem; }
label { display: block; margin-bottom: 1rem; color: var(--soft); font-size: .9rem; }
input { display: block; width: 100%; margin-top: .25rem; padding: .55rem .7rem; font: inherit;
  color: var(--ink); border: 1px solid var(--line); border-radius: 6px; }
input.key, dd.key, td.key { font-family: ui-monospace, monospace; font-size: .82rem;
  overflow-wrap: anywhere; }
button { padding: .55rem 1.1rem; font: inherit; color: #fff; background: var(--accent); border: 0;
  border-radius: 6px; cursor: pointer; }
table { width: 100%; border-collapse: collapse; }
th, td { padding: .55rem .4rem; text-align: left; border-bottom: 1px solid var(--line); }
th { color: var(--soft); font-weight: 500; font-size: .85rem; }
dt { color: var(--soft); font-size: .85rem; } dd { margin: 0 0 .8rem; }
[role=alert] { color: #b42318; } [role=alert]:empty { display: none; }
"""

_NAVIGATION: Final = '<a href="/invoices">Invoices</a><a href="/invoices/new">New invoice</a>'

_SAY_WHY: Final = """<script>
document.forms[0].addEventListener("invalid", (event) => {
  document.getElementById("why").textContent =
    `Not submitted: ${event.target.name} must ${event.target.title || "be filled in"}.`;
}, true);
</script>"""


def login(next_path: str, *, wrong: bool = False) -> str:
    why = '<p role="alert">Wrong user or password.</p>' if wrong else ""
    return _page(
        "Log in",
        f"""{why}<form method="post" action="/login">
<input type="hidden" name="next" value="{escape(next_path)}">
<label>User <input name="user" autocomplete="username" required></label>
<label>Password <input name="password" type="password" autocomplete="current-password" required></label>
<button>Log in</button></form>""",
        navigation="",
    )


def invoice_form(request_key: str, number: str, amount: str, *, strict: bool = False) -> str:
    """The form. `strict` lets the browser itself refuse an amount without two decimals (S22)."""
    checked = r'required pattern="[0-9]+\.[0-9]{2}" title="have two decimals"' if strict else ""
    return _page(
        "New invoice, checked in the page" if strict else "New invoice",
        f"""<p role="alert" id="why"></p><form method="post" action="/invoices">
<label>Invoice number <input name="number" value="{escape(number)}" autocomplete="off"></label>
<label>Amount
<input name="amount" value="{escape(amount)}" inputmode="decimal" autocomplete="off" {checked}></label>
<label>Request key
<input class="key" name="request_key" value="{escape(request_key)}" autocomplete="off"></label>
<button>Submit invoice</button></form>{_SAY_WHY if strict else ""}""",
    )


def confirmation(submission: Submission) -> str:
    return _page(
        "Invoice submitted",
        f"""<dl><dt>Invoice number</dt><dd>{escape(submission.number)}</dd>
<dt>Amount</dt><dd>{escape(submission.amount)}</dd>
<dt>Request key</dt><dd class="key">{escape(submission.request_key)}</dd></dl>""",
    )


def invoices(submissions: Sequence[Submission]) -> str:
    rows = "".join(
        f"<tr><td>{escape(one.number)}</td><td>{escape(one.amount)}</td>"
        f'<td class="key">{escape(one.request_key)}</td></tr>'
        for one in submissions
    )
    head = "<tr><th>Number</th><th>Amount</th><th>Request key</th></tr>"
    return _page("Invoices", f"<table><thead>{head}</thead><tbody>{rows}</tbody></table>")


def refusal(title: str, why: str) -> str:
    return _page(title, f'<p role="alert">{escape(why)}</p>')


def slow(waited_s: float) -> str:
    return _page("Slow page", f"<p>Answered after {waited_s:g} s.</p>")


def loop() -> str:
    """A button whose click never lets go of the page's thread."""
    return _page("Endless loop", """<button type="button" onclick="for (;;) {}">Start the loop</button>""")


def counter() -> str:
    """A page that asks for `/tick` every 200 ms and lists what it was told."""
    return _page(
        "Counter",
        """<p>Ticks: <output id="count">0</output></p><ol id="ticks" reversed></ol><script>
let count = 0;
setInterval(async () => {
  const list = document.getElementById("ticks"), item = document.createElement("li");
  try { item.textContent = "tick " + (await (await fetch("/tick")).json()).tick; }
  catch { item.textContent = "no answer"; }
  document.getElementById("count").textContent = ++count;
  list.prepend(item);
  while (list.childElementCount > 20) list.lastElementChild.remove();
}, 200);
</script>""",
    )


def table(amounts: Mapping[str, str], *, clock: bool) -> str:
    """Rows whose amounts follow the switch without a reload; with `clock`, something else changes too."""
    rows = "".join(
        f"""<tr><td>{escape(number)}</td><td data-number="{escape(number)}">{escape(amount)}</td>
<td><button name="number" value="{escape(number)}">Approve</button></td></tr>"""
        for number, amount in amounts.items()
    )
    ticking = '<p>Time: <span id="clock"></span></p>' if clock else ""
    return _page(
        "Amounts",
        f"""{ticking}<form method="post" action="/table"><table>
<thead><tr><th>Number</th><th>Amount</th><th></th></tr></thead><tbody>{rows}</tbody></table></form><script>
const clock = document.getElementById("clock");
setInterval(async () => {{
  if (clock) clock.textContent = new Date().toISOString();
  const amounts = await (await fetch("/table/amounts")).json();
  for (const cell of document.querySelectorAll("[data-number]"))
    if (cell.textContent !== amounts[cell.dataset.number]) cell.textContent = amounts[cell.dataset.number];
}}, 100);
</script>""",
    )


def _page(title: str, body: str, *, navigation: str = _NAVIGATION) -> str:
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{escape(title)} · Demo books</title>
<link rel="icon" href="data:,"><style>{_STYLE}</style></head>
<body><header><div><strong>Demo books</strong>{navigation}</div></header>
<main><h1>{escape(title)}</h1>{body}</main></body></html>
"""
