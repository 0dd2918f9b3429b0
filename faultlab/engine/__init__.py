"""Where stacks run: the contract of an engine, and a folder for each kind of engine."""
