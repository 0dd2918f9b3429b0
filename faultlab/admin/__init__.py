"""This machine and what of ours is on it: doctor, status, offline bundle."""
