"""Workshop: a class at one machine, each seat with stacks of its own, and a page for everybody.

`plan` is class.toml; `journal` keeps every event, and the `roster` follows from them; `session`
lets the seats start, check and end labs, as `slots` become free, on `stacks` that `processes` bring
up; `access` says who may come in, `tty` gives a terminal, `server` serves the pages, `verbs` are
the commands.
"""
