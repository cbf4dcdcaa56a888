"""What a user waits for, as ratios within one run: `make bench`."""
