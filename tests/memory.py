"""How much memory a process of ours took at most, asked by itself.

Not ``ru_maxrss``: it begins with what the process that started it had.
"""

PEAK_KIB = "int(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"
"""An expression, for the text of a program."""
