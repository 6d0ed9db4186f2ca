"""Values of a model in Relax that lie in memory as bfloat16 or as whole numbers of steps."""
