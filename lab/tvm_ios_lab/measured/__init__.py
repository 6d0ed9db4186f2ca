"""Measurements of experiments on this CPU, a module each. All of it loads TVM."""
