"""Jobs with scripted stages, and a run of them in no time, by the same scheduler as real ones."""
