#!/bin/sh
# Installs this checkout, editable, into .venv: .ci/venv.sh EXTRA[,EXTRA]
set -eu

extras=$1
python=${PYTHON:-python3}

stop() {
    echo "lessor: $*" >&2
    exit 1
}

command -v "$python" >/dev/null || stop "needs Python 3.11 or newer, and finds no $python"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
    || stop "needs Python 3.11 or newer: try make PYTHON=python3.12"

# Debian keeps what venv needs in a package of its own.
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
        stop "$python cannot make a virtual environment: install python3-venv"
    fi
    echo "lessor: installing python3-venv" >&2
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends python3-venv >/dev/null
fi

# A half-made environment, or one whose Python has gone, is made again.
.venv/bin/python -m pip --version >/dev/null 2>&1 || "$python" -m venv --clear .venv

echo "lessor: installing lessor[$extras] into .venv" >&2
pip() { .venv/bin/python -m pip --quiet --disable-pip-version-check install --constraint constraints.txt "$@"; }
# setuptools comes first so that the build uses the pinned one, not the newest of the day.
pip setuptools
pip --no-build-isolation --editable ".[$extras]"
