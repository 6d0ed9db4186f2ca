"""Schedules of our own for kernels that TVM's generic ones for CPUs leave scalar."""
