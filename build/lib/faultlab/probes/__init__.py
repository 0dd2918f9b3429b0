"""Probes: one file for each way to look at a stack, as a user or an engineer would.

A probe runs a standard program in a machine and returns a frozen dataclass. It never judges.
"""
