"""Faults that are planted, to know that the checkers bite: `python -m bench.chaos.teeth`.

    tooth        what a planted fault is, and what must be found because of it
    catalogue    all of them
    functions    those of the SQL functions: a text that takes the place of another
    patches      those of the Python code, in the processes of one run

Each gets a run of its own, on a server of its own, with the faults from outside that bring it to
light. A planted fault that no checker notices is a hole in the checkers.
"""
