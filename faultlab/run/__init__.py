"""One walk through a lab: where it runs, what is done, what is read, and its record."""
