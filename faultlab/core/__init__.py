"""The parts that the whole program uses: errors, paths, commands, locks, the terminal, text."""
