"""The command line: one file a group of verbs, and `main`, which runs them."""
