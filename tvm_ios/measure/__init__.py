"""Timing: samples until a median is known, interleaved races, the mode of the machine. No TVM."""
