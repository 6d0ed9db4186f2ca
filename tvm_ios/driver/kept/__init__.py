"""Results of ``tune`` that are kept, and taken by equal calls."""
