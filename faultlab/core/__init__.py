"""What every part of the program uses: errors, paths, commands, locks, the terminal, text."""
