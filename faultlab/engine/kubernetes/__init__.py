"""Kubernetes: stacks as pods of a cluster."""
