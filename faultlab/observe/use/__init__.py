"""Use: the USE table of a running stack: utilisation, saturation and errors of each resource.

`sections` reads each place with one command. `rows` makes rows of `cells`. `limits` says
which of them look wrong. `table` combines everything.
"""
