"""Where things lie and whom to talk to. Everything has a default; the environment and the caller override."""

import hashlib
import platform
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec
import platformdirs

from lessor.errors import Code, error_of, problem
from lessor.limits import Limits

_UNFIT: Final = re.compile(r"[^a-z0-9_-]+")


def name_of(text: str, default: str) -> str:
    """A valid name out of any text: for host names and the like."""
    fitted = _UNFIT.sub("-", text.lower()).strip("-_")[:63]
    return fitted or default


def default_data_dir() -> Path:
    return Path(platformdirs.user_data_dir("lessor"))


def default_host(data_dir: Path) -> str:
    """One name per machine and data directory: two hosts of one name fence each other."""
    digest = hashlib.sha256(str(data_dir).encode()).hexdigest()[:6]
    return name_of(f"{platform.node()[:40]}-{digest}", f"host-{digest}")


def limits_of(environment: Mapping[str, str]) -> Limits:
    """The numbers, with what the environment changes of them."""
    given = {name: environment.get(f"LESSOR_LIMIT_{name.upper()}") for name in Limits.__struct_fields__}
    changed = {name: value for name, value in given.items() if value}
    try:
        return msgspec.convert(changed, Limits, strict=False)
    except msgspec.ValidationError as error:
        raise error_of(problem(Code.SETUP_FAILED, f"Correct the LESSOR_LIMIT_ settings: {error}.")) from None


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a host and its broker.

    `data_dir` holds the embedded broker's store, the keys and the host's own files (0700).
    `live_dir` holds live browser directories and belongs on tmpfs; None chooses.
    `nats_url` None means the embedded broker of `data_dir`.
    """

    data_dir: Path
    live_dir: Path | None = None
    nats_url: str | None = None
    nats_token: str | None = None
    nats_user: str | None = None
    nats_password: str | None = None
    nats_credentials: Path | None = None
    nats_replicas: int = 1
    tenant: str | None = None
    principal: str | None = None
    """Who asks, for programs that are workers; None: what their credentials say."""
    host: str = "host-1"
    chromium: Path | None = None
    """The browser binary; None looks on the PATH, then for Playwright's."""
    runs_url: str | None = None
    """The application's own word on its runs: an HTTP endpoint (lessor.http_source)."""
    runs_token: str | None = None
    sandbox: bool | None = None
    """None: Chromium's sandbox everywhere but as root, where it cannot start."""
    limits: Limits = msgspec.field(default_factory=Limits)

    @classmethod
    def of(cls, environment: Mapping[str, str], data_dir: Path | None = None) -> "Config":
        """From LESSOR_DATA_DIR, LESSOR_LIVE_DIR, LESSOR_URL, LESSOR_TOKEN, LESSOR_CREDENTIALS, LESSOR_TENANT,
        LESSOR_PRINCIPAL, LESSOR_HOST and LESSOR_CHROMIUM.

        Each number of `Limits` may be set by LESSOR_LIMIT_ and its name: LESSOR_LIMIT_WARM_MAX=0. Raises
        LessorError when one is no number; a host also refuses those that contradict each other.
        """
        chosen = data_dir or Path(environment.get("LESSOR_DATA_DIR") or default_data_dir())
        live = environment.get("LESSOR_LIVE_DIR")
        credentials = environment.get("LESSOR_CREDENTIALS")
        chromium = environment.get("LESSOR_CHROMIUM")
        return cls(
            data_dir=chosen.absolute(),
            live_dir=Path(live).absolute() if live else None,
            nats_url=environment.get("LESSOR_URL"),
            nats_token=environment.get("LESSOR_TOKEN"),
            nats_credentials=Path(credentials) if credentials else None,
            tenant=environment.get("LESSOR_TENANT") or None,
            principal=environment.get("LESSOR_PRINCIPAL") or None,
            host=name_of(environment.get("LESSOR_HOST", ""), default_host(chosen.absolute())),
            chromium=Path(chromium) if chromium else None,
            runs_url=environment.get("LESSOR_RUNS_URL") or None,
            runs_token=environment.get("LESSOR_RUNS_TOKEN") or None,
            limits=limits_of(environment),
        )
