"""Workers of one machine, which ask, block, compute and release, and the agent that owns them."""
