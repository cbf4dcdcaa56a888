"""NATS, and nothing else knows it: the embedded server, the connection, and the ports that live there."""
