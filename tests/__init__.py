"""Tests: `unit` needs no Docker, `live` runs on real engines; `recorded` is what programs print."""
