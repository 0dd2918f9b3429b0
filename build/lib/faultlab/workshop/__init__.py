"""Workshop: a class at one machine, each seat with stacks of its own, and a page for everybody.

`plan` is what class.toml says; `journal` what has happened, `roster` what follows from it; `room`
lets the seats start, check and end labs; `access` says who may come in, `tty` gives a terminal,
`server` serves the pages, `verbs` are the commands.
"""
