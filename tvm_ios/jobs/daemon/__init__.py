"""The daemon: jobs of one folder, asked through a socket, run by one executor."""
