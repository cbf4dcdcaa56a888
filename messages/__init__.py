"""The vocabulary: what workers ask, what owners answer, what the journal remembers. msgspec and nothing else."""
