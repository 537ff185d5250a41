"""The rewind picker, for the command line and for programs that have an input box of their own.

``pick_rewind(session)`` lets the user choose and returns the plan; ``session.rewind(plan)`` executes it, and the
report's ``prompt`` belongs into the input box. ``state``, ``rows``, ``words`` and ``text`` are pure; only
``rewind_app`` needs prompt_toolkit, which is imported when a picker opens and not before.
"""

from sessions.picker.pick import pick_rewind

__all__ = ["pick_rewind"]
