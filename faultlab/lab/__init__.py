"""What a lab is: its facts, its services, its check and its images, as data; nothing runs here."""
