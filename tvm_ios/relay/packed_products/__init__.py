"""Products of a few rows by packed weights of bytes on CPUs, by loops of our own."""
