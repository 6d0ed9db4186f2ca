"""Kernels one by one: lowered code in, objects from a cache or a compiler, linked into a library.

Comes between a dialect, which says what each kernel computes, and the library for an executor.
"""
