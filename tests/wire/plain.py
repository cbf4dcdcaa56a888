"""A worker without lessor: NATS, JSON and a monotonic clock, built from the examples of `docs/wire.md` alone."""

import json
import time
from typing import Any

import nats.aio.client
import nats.errors

Json = dict[str, Any]


class Plain:
    """One caller. `requests` holds an example body for each request; a call changes what it names."""

    def __init__(
        self, connection: nats.aio.client.Client, requests: dict[str, str], tenant: str = "local", principal: str = "me"
    ) -> None:
        self.connection = connection
        self.requests = requests
        self.root = f"lessor.v1.{tenant}.{principal}"

    def body(self, name: str, **changes: Any) -> Json:
        """The page's example with an id of its own. A field set to None is left out."""
        example: Json = {**json.loads(self.requests[name]), "id": f"id-{time.monotonic_ns()}", **changes}
        return {field: value for field, value in example.items() if value is not None}

    async def send(self, subject: str, body: bytes, timeout_s: float = 10.0) -> Json | None:
        """The reply; None when nobody listens on the subject."""
        try:
            reply = await self.connection.request(subject, body, timeout=timeout_s)
        except nats.errors.NoRespondersError:
            return None
        told: Json = json.loads(reply.data)
        return told

    async def ask(self, subject: str, name: str, **changes: Any) -> Json | None:
        return await self.send(subject, json.dumps(self.body(name, **changes)).encode())

    async def profile(self, profile: str, verb: str, **changes: Any) -> Json:
        return told(await self.ask(f"{self.root}.p.{profile}.{verb}", verb, **changes))

    async def run(self, run: str, verb: str, **changes: Any) -> Json:
        return told(await self.ask(f"{self.root}.r.{run}.{verb}", f"r.{verb}", **changes))

    async def renew(self, host: str, **changes: Any) -> Json:
        return told(await self.ask(f"{self.root}.h.{host}.renew", "h.renew", **changes))

    async def list(self) -> Json:
        return told(await self.ask(f"{self.root}.list", "list"))


def told(reply: Json | None) -> Json:
    assert reply is not None, "nobody listens"
    return reply


class Lease:
    """What a worker keeps of its lease: the owner's newest view, and when it was heard."""

    def __init__(self, plain: Plain, profile: str, granted: Json) -> None:
        self.plain, self.profile = plain, profile
        self.hear(granted)

    def hear(self, reply: Json) -> None:
        if "lease" in reply:
            self.view: Json = reply["lease"]
            self.heard_s = time.monotonic()

    @property
    def named(self) -> Json:
        return {"lease": self.view["lease"], "claim": self.view["claim"]}

    def deadline_ms(self, timeout_s: float) -> int:
        """On the owner's clock: its last word + what has passed here since + our timeout."""
        return int(self.view["clock_ms"] + (time.monotonic() - self.heard_s + timeout_s) * 1000)

    def body(self, verb: str, timeout_s: float = 10.0, **changes: Any) -> Json:
        """A request of this lease, with what the verb needs of lease, claim, deadline and sequence."""
        fields: Json = dict(self.named)
        if verb in ("navigate", "observe", "act", "close"):
            fields["deadline_ms"] = self.deadline_ms(timeout_s)
        if verb in ("navigate", "act"):
            fields["sequence"] = self.view["next_sequence"]
        return self.plain.body(verb, **{**fields, **changes})

    async def send(self, verb: str, body: Json) -> Json | None:
        """On the owner's own route."""
        reply = await self.plain.send(f"{self.view['route']}.{verb}", json.dumps(body).encode())
        self.hear(reply or {})
        return reply

    async def ask(self, verb: str, timeout_s: float = 10.0, **changes: Any) -> Json:
        return told(await self.send(verb, self.body(verb, timeout_s, **changes)))

    async def close(self) -> Json:
        """Any host passes it on; asked again until there is a receipt."""
        while True:
            reply = await self.plain.profile(self.profile, "close", **self.named, deadline_ms=self.deadline_ms(20.0))
            if reply["type"] == "closed" or reply["error"]["code"] not in ("closing", "seal_failed"):
                return reply


async def lease(plain: Plain, run: str, profile: str, **taking: Any) -> Lease:
    """Take the run, acquire the profile."""
    taken = await plain.run(run, "take", **taking)
    claim = taken["record"]["claim"]
    while True:
        reply = await plain.profile(profile, "acquire", run=run, claim=claim)
        if reply["type"] == "granted" or not reply["error"].get("retryable"):
            assert reply["type"] == "granted", reply
            return Lease(plain, profile, reply)
