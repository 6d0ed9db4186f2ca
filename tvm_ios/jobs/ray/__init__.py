"""Jobs on the nodes of a Ray cluster: the local agent on each, in an actor."""
