"""The command line: thin over the facade. One module a command; each loads only what it needs.

``app`` finds the command and turns errors into one line and an exit code; ``options`` are what commands share;
``output`` writes; ``render`` is pure text.
"""
