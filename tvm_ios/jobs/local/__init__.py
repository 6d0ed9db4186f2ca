"""Jobs on this machine: a daemon that decides, and workers that ask, block, compute and release."""
