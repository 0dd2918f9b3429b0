"""One person who works on a lab, from start to debrief, with hints, mystery and progress."""
