"""Transcripts: lines, what they mean together, and how they are read and written."""
