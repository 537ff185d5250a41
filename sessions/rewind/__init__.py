"""Snapshots, the code timeline, plans, and the transaction that makes a rewind true."""
