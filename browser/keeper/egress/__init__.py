"""Egress: the only way from a page to the network, one process per browser, in its keeper's tree.

Standard library only; it is forked by the keeper, so what it imports is held once per browser.
"""
