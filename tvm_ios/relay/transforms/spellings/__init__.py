"""One spelling for what importers write in several ways, before layouts are chosen."""
