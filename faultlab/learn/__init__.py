"""One person at one lab: start to debrief, hints, mystery."""
