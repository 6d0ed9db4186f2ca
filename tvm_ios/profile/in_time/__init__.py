"""A call with little time: its early answers, and what it plans."""
