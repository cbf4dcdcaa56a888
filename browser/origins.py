"""Which addresses a document may have (contract, Pages)."""

from urllib.parse import urlsplit

DEFAULT_PORTS = {"http": 80, "https": 443}
BLANK = "about:blank"


def origin_of(url: str) -> str | None:
    """`scheme://host[:port]` as browsers write it, the default port left out; None for anything that is not plain
    http or https, carries credentials, or cannot be read."""
    if any(character <= " " or character in "\\\x7f" for character in url):
        return None
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    default = DEFAULT_PORTS.get(parts.scheme)
    if default is None or not parts.hostname or "@" in parts.netloc:
        return None
    host = parts.hostname
    if not host.isascii():
        try:
            host = host.encode("idna").decode()
        except UnicodeError:
            return None
    shown = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{shown}" + ("" if port in (None, default) else f":{port}")


def authority_of(origin: str) -> str:
    """`host:port` of an origin, the port always there."""
    parts = urlsplit(origin)
    host = parts.hostname or ""
    return f"{f'[{host}]' if ':' in host else host}:{parts.port or DEFAULT_PORTS[parts.scheme]}"


class Origins:
    """The exact origins of a profile."""

    def __init__(self, origins: tuple[str, ...]) -> None:
        self.allowed = frozenset(origin for origin in map(origin_of, origins) if origin is not None)

    def __repr__(self) -> str:
        return f"<Origins {' '.join(sorted(self.allowed))}>"

    def allow(self, url: str) -> bool:
        """May a document be fetched from there?"""
        return origin_of(url) in self.allowed

    def may_show(self, url: str) -> bool:
        """May a tab stand there? An empty page, the browser's own error page and what an allowed page made up
        itself (`blob:`) fetch nothing."""
        if url.startswith(("about:", "chrome-error:")):
            return True
        return self.allow(url.removeprefix("blob:"))

    def authorities(self) -> tuple[str, ...]:
        """Every `host:port`, as the egress takes them."""
        return tuple(sorted(map(authority_of, self.allowed)))
