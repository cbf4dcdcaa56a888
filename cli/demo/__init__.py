"""The demo's world: a small local site that keeps its own record of what was done to it."""
