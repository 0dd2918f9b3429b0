"""The command line: one file for each group of verbs, and `main`, which runs them."""
