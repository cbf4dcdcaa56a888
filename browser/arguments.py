"""How Chromium is started: its switches and its environment, in one place."""

from __future__ import annotations

import os
from collections.abc import Mapping

SHM_BYTES_MIN = 512 << 20

UNWANTED = (
    "AutofillServerCommunication",
    "CertificateTransparencyComponentUpdater",
    "InterestFeedContentSuggestions",
    "MediaRouter",
    "OptimizationHints",
    "Translate",
)
# What it would otherwise ask the network for, show to a person, or wait for.
QUIET = (
    "--disable-background-networking",
    "--disable-breakpad",
    "--disable-client-side-phishing-detection",
    "--disable-component-update",
    "--disable-crash-reporter",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-extensions",
    "--disable-field-trial-config",
    "--disable-hang-monitor",
    "--disable-popup-blocking",
    "--disable-prompt-on-repost",
    "--disable-search-engine-choice-screen",
    "--disable-sync",
    "--disable-features=" + ",".join(UNWANTED),
    "--hide-crash-restore-bubble",
    "--metrics-recording-only",
    "--no-default-browser-check",
    "--no-first-run",
    "--no-service-autorun",
    "--password-store=basic",
    "--use-mock-keychain",
)
# A page that nobody looks at is worked on all the same.
ATTENTIVE = (
    "--disable-backgrounding-occluded-windows",
    "--disable-background-timer-throttling",
    "--disable-renderer-backgrounding",
)
# Nothing leaves but through the egress proxy, and no name is resolved but there.
ENCLOSED = (
    "--disable-quic",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
)
HEADLESS = ("--headless", "--disable-gpu", "--hide-scrollbars", "--mute-audio")

# Only what a browser needs of its host's environment, which holds credentials.
ENVIRONMENT = (
    "DISPLAY",
    "FONTCONFIG_FILE",
    "FONTCONFIG_PATH",
    "HOME",
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_CTYPE",
    "LD_LIBRARY_PATH",
    "PATH",
    "TZ",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "XDG_CONFIG_HOME",
    "XDG_DATA_DIRS",
    "XDG_RUNTIME_DIR",
)


def chromium_arguments(*, headless: bool = True) -> tuple[str, ...]:
    """The switches common to every browser; the keeper adds its own (pipe, profile, proxy), which come
    last."""
    return (
        *QUIET,
        *ATTENTIVE,
        *ENCLOSED,
        *(HEADLESS if headless else ()),
        *(() if _has_shared_memory() else ("--disable-dev-shm-usage",)),
    )


def chromium_environment(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """What of this process's environment a browser gets."""
    present = os.environ if environment is None else environment
    return {name: present[name] for name in ENVIRONMENT if name in present}


def _has_shared_memory() -> bool:
    try:
        room = os.statvfs("/dev/shm")  # noqa: S108 - asked about, not written to
    except OSError:
        return False
    return room.f_bavail * room.f_frsize >= SHM_BYTES_MIN
