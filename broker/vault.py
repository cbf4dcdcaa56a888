"""Sealed state in a JetStream object store: immutable, uniquely named, read back (contract 25)."""

import asyncio
import base64
import hashlib
import io
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

import msgspec
import nats.errors
import nats.js.errors
from nats.js import JetStreamContext
from nats.js.api import ObjectStoreConfig
from nats.js.object_store import ObjectStore

from lessor.broker.connection import Connection
from lessor.broker.subjects import Shard
from lessor.errors import Code, Problem, problem
from lessor.messages.ids import ProfileKey
from lessor.ports import BrokerAway, Silence

SEALED_BYTES_MAX: Final = 64 * 1024 * 1024
TRANSFER_S_MAX: Final = 30.0
CALL_S_MAX: Final = 5.0

T = TypeVar("T")
_AWAY: Final = (nats.errors.Error, nats.js.errors.Error, TimeoutError, OSError)


class ObjectVault:
    """`ports.Vault`. Names are `<tenant>/<profile>/<anything>`; base64 in the store, so none escapes."""

    def __init__(self, connection: Connection, store: ObjectStore, bucket: str) -> None:
        self._connection = connection
        self._store = store
        self._bucket = bucket

    async def put(self, name: str, sealed: bytes) -> str:
        """Raises BrokerAway after 30 s; what was stored by then is swept as unreferenced."""
        assert len(sealed) <= SEALED_BYTES_MAX
        digest = hashlib.sha256(sealed).hexdigest()
        await _bounded(self._store.put(name, sealed), TRANSFER_S_MAX)
        if await self.get(name, digest) is None:
            raise BrokerAway(f"{name} does not read back as it was written")
        return digest

    async def get(self, name: str, sha256: str) -> bytes | None:
        body = io.BytesIO()
        try:
            info = await _bounded(self._store.get_info(name), CALL_S_MAX)
            if (info.size or 0) > SEALED_BYTES_MAX:
                return None
            await _bounded(self._store.get(name, writeinto=body), TRANSFER_S_MAX)
        except (nats.js.errors.ObjectNotFoundError, nats.js.errors.DigestMismatchError):
            return None
        sealed = body.getvalue()
        return sealed if hashlib.sha256(sealed).hexdigest() == sha256 else None

    async def delete(self, name: str) -> None:
        """With its meta message, so that it is not listed any more. Absent: nothing to do."""
        try:
            await _bounded(self._store.delete(name), CALL_S_MAX)
        except nats.js.errors.ObjectNotFoundError:
            return
        body = msgspec.json.encode({"filter": f"{self._metas}{_encoded(name)}"})
        await self._connection.request(f"$JS.API.STREAM.PURGE.OBJ_{self._bucket}", body, CALL_S_MAX)

    async def names(self, key: ProfileKey) -> tuple[str, ...]:
        """All objects of one profile, sorted. Asks the broker for all names: for sweeps only."""
        prefix = f"{key.tenant}/{key.profile}/"
        return tuple(sorted(name for name in await self._all() if name.startswith(prefix)))

    @property
    def _metas(self) -> str:
        return f"$O.{self._bucket}.M."

    async def _all(self) -> list[str]:
        found: list[str] = []
        while True:
            query = {"subjects_filter": f"{self._metas}>", "offset": len(found)}
            answer = await self._connection.request(
                f"$JS.API.STREAM.INFO.OBJ_{self._bucket}", msgspec.json.encode(query), CALL_S_MAX
            )
            if isinstance(answer, Silence):
                raise BrokerAway(f"the object store does not answer ({answer.value})")
            told = msgspec.json.decode(answer.data, type=_Info)
            found += [_decoded(subject.removeprefix(self._metas)) for subject in told.state.subjects or ()]
            if not told.state.subjects or len(found) >= told.total:
                return found


class _State(msgspec.Struct):
    subjects: dict[str, int] | None = None


class _Info(msgspec.Struct):
    state: _State
    total: int = 0


async def open_vault(connection: Connection, shard: Shard, replicas: int = 1) -> ObjectVault | Problem:
    """The shard's bucket, made when absent."""
    jetstream = JetStreamContext(connection.client, timeout=CALL_S_MAX)
    try:
        try:
            store = await _bounded(jetstream.object_store(shard.bucket), CALL_S_MAX)
        except nats.js.errors.BucketNotFoundError:
            config = ObjectStoreConfig(bucket=shard.bucket, replicas=replicas)
            making = jetstream.create_object_store(  # pyright: ignore[reportUnknownMemberType]  # untyped options
                shard.bucket, config
            )
            store = await _bounded(making, CALL_S_MAX)
    except (BrokerAway, *_AWAY) as error:
        return problem(
            Code.SETUP_FAILED,
            f"The broker does not give us object store {shard.bucket} ({error}): enable JetStream for this"
            " account and allow it to make the bucket.",
        )
    return ObjectVault(connection, store, shard.bucket)


async def _bounded(work: Coroutine[Any, Any, T], seconds: float) -> T:
    """As a task of its own: the client can swallow a cancellation. Raises BrokerAway, or what says more."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task}, timeout=seconds)
    finally:
        task.cancel()
    if not task.done():
        raise BrokerAway(f"no answer within {seconds:.0f} s")
    try:
        return task.result()
    except (
        nats.js.errors.ObjectNotFoundError,
        nats.js.errors.DigestMismatchError,
        nats.js.errors.BucketNotFoundError,
    ):
        raise
    except _AWAY as error:
        raise BrokerAway(f"{type(error).__name__}: {error}") from None


def _encoded(name: str) -> str:
    return base64.urlsafe_b64encode(name.encode()).decode()


def _decoded(token: str) -> str:
    return base64.urlsafe_b64decode(token).decode()
