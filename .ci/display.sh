#!/bin/sh
# Sees to a screen and a hand for the tests that sign in as a person would: Debian's, when root.
set -eu

there() { command -v Xvfb >/dev/null && command -v xdotool >/dev/null; }

there && exit 0
if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
    echo "lessor: installing Debian's xvfb and xdotool" >&2
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq && apt-get install -y -qq --no-install-recommends xvfb xdotool >/dev/null || true
fi
there || echo "lessor: no Xvfb and xdotool: the tests of \`lessor login\` will fail until they are installed" >&2
