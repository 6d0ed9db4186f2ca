"""From a fused function of Relay to a call of oneDNN that computes it. No TVM, no oneDNN here."""
