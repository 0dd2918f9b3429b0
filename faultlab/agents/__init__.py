"""Agents: sessions in which a program or a model works at a lab that it does not know."""
