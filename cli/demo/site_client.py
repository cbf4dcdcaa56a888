"""Asking the demo site over HTTP, as a program and not as a page: look-ups, and the switches for the demo's faults."""

import json
from http.client import HTTPConnection
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

ANSWER_S: Final = 5.0


class SiteClient:
    """One connection per question, 5 s at most beyond what the site is asked to wait. Blocking."""

    def __init__(self, url: str) -> None:
        self.url = url

    def __repr__(self) -> str:
        return f"SiteClient({self.url})"

    def look_up(self, request_key: str) -> list[dict[str, str]]:
        """The invoices recorded under a request key."""
        invoices: list[dict[str, str]] = self._ask("GET", f"/api/invoices?{urlencode({'key': request_key})}")[
            "invoices"
        ]
        return invoices

    def switch(self, **changes: object) -> None:
        self._ask("POST", "/switches", changes)

    def held(self, wait_s: float) -> list[str]:
        """The numbers of the invoices that wait at the site's gate, as soon as there is one."""
        return [each["number"] for each in self._ask("GET", f"/held?wait_s={wait_s:g}", wait_s=wait_s)["held"]]

    def release(self) -> None:
        self._ask("POST", "/release", {})

    def _ask(self, method: str, path: str, body: object = None, *, wait_s: float = 0.0) -> dict[str, Any]:
        connection = HTTPConnection(urlsplit(self.url).netloc, timeout=wait_s + ANSWER_S)
        try:
            payload = None if body is None else json.dumps(body)
            connection.request(method, path, payload, {"Content-Type": "application/json"})
            answer: dict[str, Any] = json.loads(connection.getresponse().read())
            return answer
        finally:
            connection.close()
