"""Protocol, records and stored problems of the experiments of the paper, and how they run."""
