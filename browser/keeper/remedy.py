"""What to do when Chromium does not come up, told by what it said."""

from __future__ import annotations

NO_SANDBOX = """Chromium cannot sandbox its pages: this user may not create user namespaces. One of these helps:
- sysctl kernel.unprivileged_userns_clone=1, where that exists, and user.max_user_namespaces above 0
- on Ubuntu 23.10 or newer an AppArmor profile with `userns` for this binary, or
  sysctl kernel.apparmor_restrict_unprivileged_userns=0
- in a container a seccomp profile that allows clone and unshare of user namespaces
- the distribution's set-user-id sandbox (Debian: the package chromium-sandbox)
Without a sandbox (sandbox=False) a page that breaks out of its renderer is this user: only for pages you trust."""
ROOT = """Chromium's sandbox does not work for root: run as another user. Without it (sandbox=False) a page that
breaks out of its renderer is root: only for pages you trust, on a machine that holds nothing else."""
NO_LIBRARY = "A shared library is missing: install Chromium from the distribution, with what it depends on."
NO_ROOM = "The file system with the profile is full, or has no inodes left."

REMEDIES = (
    ("No usable sandbox", NO_SANDBOX),
    ("Running as root without --no-sandbox", ROOT),
    ("error while loading shared libraries", NO_LIBRARY),
    ("No space left on device", NO_ROOM),
)


def remedy_for(log: str) -> str:
    """What its user can do, "" when that is not known."""
    return next((remedy for said, remedy in REMEDIES if said in log), "")
