"""Operator libraries, which compute operators in place of TVM's kernels; a folder for each."""
