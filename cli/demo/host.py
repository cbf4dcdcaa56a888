"""`lessor up` as the demo starts it: the same program, but it drains and ends when the demo does."""

import os
import signal
import sys

from lessor.cli.demo.parent import die_with_parent


def main() -> None:
    die_with_parent(signal.SIGTERM)  # survives the exec
    safe = ["-P"] if sys.flags.safe_path else []
    os.execv(sys.executable, [sys.executable, *safe, "-m", "lessor", "up", *sys.argv[1:]])  # noqa: S606 - our own interpreter


if __name__ == "__main__":
    main()
