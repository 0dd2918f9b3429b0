"""On call: a stack that lives for hours, in which faults come and go, and a report in the end."""
