"""Ids that nobody else has."""

import secrets


def fresh_id() -> str:
    """96 random bits, in hex: for leases, nonces, requests and instances."""
    return secrets.token_hex(12)
