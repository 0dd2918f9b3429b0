"""Workshop: a class at one machine, each seat with stacks of its own, and a page for everybody.

`plan` is class.toml; `journal` keeps every event, and the `roster` follows from them; `session`
lets the seats start, check and end labs, as `slots` become free, on `stacks` that `processes` bring
up. `site` is all that a browser can ask for: `page`, `streams`, `actions` and `terminals`, each
behind `guard`, which knows from `access` who may come in; `tty` is one terminal, `view` what a page
shows. `verbs` are the commands: they keep a class in its `folder`, and `server` serves it at an
`address`, with the sockets of `connections`.
"""
