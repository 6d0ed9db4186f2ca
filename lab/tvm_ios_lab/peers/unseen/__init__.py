"""Networks that nobody here has tuned for, made with other people's libraries and raced."""
