"""Background work of an agent: which of it a rewind concerns."""
