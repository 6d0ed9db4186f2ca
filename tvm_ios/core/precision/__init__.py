"""Types that values have in memory, and how far off results may be."""
