"""A thin sync face for scripts: `with lessor.sync.connect() as client:`.

The same calls, arguments, bounds and errors as `lessor.client`, each run to its end on a private event-loop thread,
where leases are also renewed between the calls. Ctrl-C cancels the call in hand, not what the page is doing: ask for
the outcome of an act before you go on.
"""

import asyncio
import functools
import threading
from collections.abc import Callable, Coroutine, Sequence
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from lessor import client as face
from lessor.messages.reply import StepState
from lessor.messages.step import Expectation, StepRecord, Way

I = TypeVar("I")  # noqa: E741 -- the inner object
P = ParamSpec("P")
T = TypeVar("T")
CLOSE_S_MAX = 5.0


class _Loop:
    """An event loop on a thread of its own, from `open` to `close`. Every call brings its own bound."""

    def open(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="lessor-sync", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        finally:
            future.cancel()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CLOSE_S_MAX)
        if not self._thread.is_alive():
            self._loop.close()


class _Face(Generic[I]):
    """An async object, seen from a script."""

    def __init__(self, loop: _Loop, inner: I) -> None:
        self._loop, self._inner = loop, inner

    def __repr__(self) -> str:
        return repr(self._inner)


def _waiting(call: Callable[Concatenate[I, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[_Face[I], P], T]:
    """The same method, run to its end."""

    @functools.wraps(call)
    def waiting(self: _Face[I], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._loop.run(call(self._inner, *args, **kwargs))  # pyright: ignore[reportPrivateUsage]  # its own class

    return waiting


class Step(_Face[face.Step]):
    """`lessor.Step`; `with` declares it. A look-up is a plain function, called on a thread of its own."""

    state = _waiting(face.Step.state)
    act = _waiting(face.Step.act)
    commit = _waiting(face.Step.commit)
    checkpoint = _waiting(face.Step.checkpoint)
    verify = _waiting(face.Step.verify)
    settle = _waiting(face.Step.settle)
    __exit__ = _waiting(face.Step.__aexit__)

    def __enter__(self) -> Self:
        self._loop.run(self._inner.__aenter__())
        return self

    @property
    def done(self) -> bool:
        return self._inner.done

    @property
    def record(self) -> StepRecord:
        return self._inner.record

    @property
    def request_key(self) -> str:
        return self._inner.request_key

    def reconcile(self, lookup: Callable[[str], str | None], *, by: str, timeout_s: float = 120.0) -> StepState:
        """Look until a verdict counts, or the time is over. Never repeats anything itself."""

        async def look(key: str) -> str | None:
            return await asyncio.to_thread(lookup, key)

        return self._loop.run(self._inner.reconcile(look, by=by, timeout_s=timeout_s))


class Lease(_Face[face.Lease]):
    """`lessor.Lease`. What it knows of itself (`id`, `next_sequence`, `revision` ...) is in `known`."""

    navigate = _waiting(face.Lease.navigate)
    observe = _waiting(face.Lease.observe)
    act = _waiting(face.Lease.act)
    close = _waiting(face.Lease.close)

    @property
    def known(self) -> face.Lease:
        return self._inner


class Run(_Face[face.Run]):
    """`lessor.Run`, to be entered with `with`: leaving the block normally reports it finished."""

    report = _waiting(face.Run.report)
    finish = _waiting(face.Run.finish)
    fail = _waiting(face.Run.fail)
    park = _waiting(face.Run.park)
    queue = _waiting(face.Run.queue)
    resume = _waiting(face.Run.resume)
    wait_for_user = _waiting(face.Run.wait_for_user)
    wait_for_child = _waiting(face.Run.wait_for_child)
    wait_for_answer = _waiting(face.Run.wait_for_answer)
    __exit__ = _waiting(face.Run.__aexit__)

    @property
    def claim(self) -> int:
        return self._inner.claim

    def __enter__(self) -> Self:
        self._loop.run(self._inner.__aenter__())
        return self

    def acquire(self, profile: str, *, horizon_s: float = 600.0, wait_s: float = 30.0) -> Lease:
        """Lease the profile: the same page when this run holds it already, else a browser from the last seal."""
        return Lease(self._loop, self._loop.run(self._inner.acquire(profile, horizon_s=horizon_s, wait_s=wait_s)))

    def step(  # noqa: PLR0913 -- a declaration has many parts
        self,
        lease: Lease,
        step: str,
        *,
        task: str | None = None,
        target: str = "",
        payload: object = None,
        kind: str = "step",
        evidence: Sequence[Way] = (),
        expect: Expectation | None = None,
        effects: bool = True,
        depends: Sequence[str] = (),
    ) -> Step:
        """A step of this run's task (default: the run's own name); its key is stable over attempts."""
        inner = self._inner.step(
            lease.known,
            step,
            task=task,
            target=target,
            payload=payload,
            kind=kind,
            evidence=evidence,
            expect=expect,
            effects=effects,
            depends=depends,
        )
        return Step(self._loop, inner)


class Client(_Face[face.Client]):
    """`lessor.Client`, one call after the other; to be entered with `with`."""

    create_profile = _waiting(face.Client.create_profile)
    show_profile = _waiting(face.Client.show_profile)
    revoke_profile = _waiting(face.Client.revoke_profile)
    profiles = _waiting(face.Client.profiles)
    status = _waiting(face.Client.status)
    outcome = _waiting(face.Client.outcome)
    steps = _waiting(face.Client.steps)
    show_run = _waiting(face.Client.show_run)
    cancel_run = _waiting(face.Client.cancel_run)
    runs = _waiting(face.Client.runs)
    approvals = _waiting(face.Client.approvals)
    approve = _waiting(face.Client.approve)
    reject = _waiting(face.Client.reject)
    grant = _waiting(face.Client.grant)
    withdraw = _waiting(face.Client.withdraw)

    def run(self, run: str, *, attempt: int = 1, deadline_s: float = 3600.0, parent: str | None = None) -> Run:
        """A run of this worker, to be entered with `with`: entering takes it (raises its claim)."""
        return Run(self._loop, self._inner.run(run, attempt=attempt, deadline_s=deadline_s, parent=parent))

    def __enter__(self) -> Self:
        self._loop.open()
        try:
            self._loop.run(self._inner.__aenter__())
        except BaseException:
            self._loop.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._loop.run(self._inner.__aexit__(kind, error, trace))
        finally:
            self._loop.close()


def _client_of(make: Callable[P, face.Client]) -> Callable[P, Client]:
    @functools.wraps(make)
    def connect(*args: P.args, **kwargs: P.kwargs) -> Client:
        return Client(_Loop(), make(*args, **kwargs))

    return connect


connect = _client_of(face.connect)
connect.__doc__ = "As `lessor.connect`, to be entered with `with`."
