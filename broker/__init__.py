"""NATS, and nothing else knows it: connection, embedded server, subjects, gateway, journal, vault, runs, hosts, line."""
