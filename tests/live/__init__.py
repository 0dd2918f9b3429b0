"""Tests of the whole system, on real engines: stacks, the VM, browsers, and whatever hits them."""
