"""What is done in the dialect of this process's TVM."""
