"""The pickers: of a checkpoint to go back to, and of a session to resume.

The first one is also for programs that have an input box of their own: ``pick_rewind(session)`` lets the user choose
and returns the plan; ``session.rewind(plan)`` executes it, and the report's ``prompt`` belongs into the input box.
States, rows, ``keys``, ``words`` and ``text`` are pure; only ``screen`` and the two apps on it need prompt_toolkit,
which is imported when a picker opens and not before.
"""

from sessions.picker.pick import pick_rewind

__all__ = ["pick_rewind"]
