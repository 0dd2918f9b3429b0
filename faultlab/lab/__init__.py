"""A lab as data: its facts, services, check and images. Nothing runs here."""
