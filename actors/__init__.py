"""The actors: shells around the rules. They decode nothing, decide nothing and never block."""
