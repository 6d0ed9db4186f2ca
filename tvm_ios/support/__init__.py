"""What every room may use and none is about: time."""
