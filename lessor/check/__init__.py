"""One checker for whoever produced a history: the simulator, a chaos run, or a production journal. Pure."""
