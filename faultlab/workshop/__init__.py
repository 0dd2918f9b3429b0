"""Workshop: a class on one machine, with stacks for each seat and a page for each person.

`plan` is class.toml. `journal` stores every event, and the `roster` follows from them. `session`
lets the seats start, check and end labs as `slots` become free, on `stacks` that `processes` bring
up. `site` has all routes of a browser: `page`, `streams`, `actions` and `terminals`. `guard` checks
each request against the tokens in `access`. `tty` is one terminal, `view` the content of a page.
`timetable` is the clock of `blocks`, and `size` says what a class needs. `master` lets each
`surprise` of the `agenda` come; `closing` and `review` say what came of it all. `guide`, `papers`
and `slides` are for the trainer, made from the `parts` of a class and from its `lessons`. `verbs`
are the commands. They keep a class in its `folder`. `server` serves it at an `address`, with the
sockets of `connections`.
"""
