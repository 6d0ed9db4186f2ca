"""What the experiments of the paper share: their protocol, records, problems, and how they run."""
