"""Checks: each reads all of one kind of data once, in bounded memory, and reports its faults.

`report` has what all of them share; `pairs`, `texts` and `conversations` each know one kind of data.
"""
