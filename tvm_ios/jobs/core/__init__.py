"""The scheduler of jobs without I/O, clock and randomness: events in, commands out."""
