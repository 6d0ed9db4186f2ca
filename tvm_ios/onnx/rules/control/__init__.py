"""Control flow and sequences, which become straight code on tensors."""
