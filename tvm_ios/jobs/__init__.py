"""Many tuning jobs on shared machines: who computes where, and when."""
