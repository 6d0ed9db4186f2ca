"""The dialect of this process's TVM, as all rooms above those of the dialects see it."""
