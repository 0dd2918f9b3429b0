"""A lab as data: its facts, its services, its check and its images; nothing runs here."""
