"""Libraries that compute operators in place of TVM's kernels: one protocol, a folder for each."""
