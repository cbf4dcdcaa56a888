"""`lessor keys rotate|list`: the keys of sealed state, in the data directory's `keys`. Run them where the host runs."""

from typing import Any

from lessor.cli.answer import Answer, table
from lessor.cli.call import Call, Where, call
from lessor.cli.options import DataDir, Json, Nats, Timeout
from lessor.errors import Code, Problem, error_of, problem


def rotate(data_dir: DataDir = None, nats: Nats = None, as_json: Json = False, timeout: Timeout = 600.0) -> None:
    """Make a new key, encrypt everything that is kept with it, and drop the old ones. Cut off, it is gone on with.

    A profile that is leased keeps the old keys: run it again when its lease is closed.
    """
    from lessor.cli.rotation import Rotated
    from lessor.cli.rotation import rotate as steps
    from lessor.cli.tools import tools

    where, answer = Where(data_dir, nats), Answer(as_json)

    async def work(at: Call) -> Rotated:
        told: Rotated | None = None
        async with tools(where) as with_:
            async for told in steps(with_.keyring, with_):
                at.progress.say(f"{len(told.rewrapped)} profiles are under {told.current}")
        assert told is not None
        return told

    told = call(work, where, timeout, answer, "rotating the keys")
    if told.kept:
        first = next(iter(told.waiting.items()), None)
        by = f"{len(told.waiting)} profiles, such as {first[0]} ({first[1]})" if first else "some generations"
        still = f"{told.current} is current; {', '.join(told.kept)} stays, needed by {by} Rotate again later."
        answer.refuse(problem(Code.PENDING, still))
    gone = f", dropped {', '.join(told.dropped)}" if told.dropped else ""
    answer.give(
        {"current": told.current, "rewrapped": told.rewrapped, "dropped": told.dropped},
        lambda out: out.print(f"{told.current} is current for {len(told.rewrapped)} profiles{gone}"),
    )


def list_(data_dir: DataDir = None, nats: Nats = None, as_json: Json = False, timeout: Timeout = 30.0) -> None:
    """The keys there are, which one is current, and which profiles need which."""
    from lessor.cli.tools import tools

    where, answer = Where(data_dir, nats), Answer(as_json)

    async def work(at: Call) -> list[dict[str, Any]]:
        at.progress.say("reading every profile's journal")
        async with tools(where) as with_:
            used, current = await with_.used(), with_.keyring.current()
            if isinstance(current, Problem):
                raise error_of(current)
            there = with_.keyring.versions()
            rotating = with_.keyring.rotating()
        return [
            {
                "key": version,
                "current": version == current[0],
                "rotating": version == rotating,
                "missing": version not in there,
                "profiles": used.get(version, []),
            }
            for version in (*there, *sorted(set(used) - set(there)))
        ]

    told = call(work, where, timeout, answer, "reading the profiles")

    def state(key: dict[str, Any]) -> str:
        if key["missing"]:
            return "MISSING: restore it from your backup"
        return ("current, rotation under way" if key["rotating"] else "current") if key["current"] else ""

    rows = [(key["key"], state(key), " ".join(key["profiles"])) for key in told]
    answer.give({"keys": told}, lambda out: table(out, ("KEY", "STATE", "NEEDED BY"), rows))
