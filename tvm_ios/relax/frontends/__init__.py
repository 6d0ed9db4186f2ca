"""Models of other frameworks in Relax."""
