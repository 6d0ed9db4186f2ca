"""Recognition of fused Relay functions that a call of oneDNN computes. No TVM, no oneDNN here."""
