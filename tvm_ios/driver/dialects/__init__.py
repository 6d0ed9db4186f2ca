"""Models, calls of ``tune`` and of ``compile_schedule`` in the dialect of this process's TVM."""
