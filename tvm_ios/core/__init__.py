"""The TVM-free nouns: operator graph, schedule blocks, endings, schedules and their verifiers."""
