"""One walk through a lab: where it runs, what is done, what is measured, and its record."""
