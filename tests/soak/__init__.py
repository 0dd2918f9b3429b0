"""Soak: a class of scripted learners for hours, while plugs are pulled, and what is left of it."""
