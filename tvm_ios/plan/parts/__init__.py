"""Parts of a plan: models that were joined, or shapes of one, by bits of groups and inputs."""
