"""Recorded stacks as data for others: the data set, alert rules tried on it, and its readings."""
