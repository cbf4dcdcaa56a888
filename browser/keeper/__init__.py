"""The keeper: one small process beside each live browser, its parent, its only door and its deadline.

Everything here but the host's side (`client`, `launch`, `link`, `ending`, `place`, `remedy`) runs inside that
process and imports the standard library only, and of that as little as will do (no typing, dataclasses, asyncio or
hashlib: each is memory held once per browser). This file stays empty of imports for the same reason.
"""
