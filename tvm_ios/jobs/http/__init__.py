"""The daemon's service over HTTP, for those who know its token."""
