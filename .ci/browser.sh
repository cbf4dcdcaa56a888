#!/bin/sh
# Sees to a browser: one on the PATH, else Debian's when root, else Playwright's own.
set -eu

log=.venv/browser.log

on_path() {
    for name in chromium-headless-shell chromium google-chrome; do
        command -v "$name" >/dev/null && return 0
    done
    return 1
}

from_debian() {
    [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null || return 1
    echo "lessor: installing Debian's chromium" >&2
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq \
        && apt-get install -y -qq --no-install-recommends chromium chromium-headless-shell >/dev/null \
        && on_path
}

from_playwright() {
    .venv/bin/python -m playwright install --only-shell chromium >"$log" 2>&1
}

on_path || from_debian || from_playwright || {
    echo "lessor: no browser: install chromium-headless-shell, chromium or google-chrome ($log says why)" >&2
    exit 1
}
