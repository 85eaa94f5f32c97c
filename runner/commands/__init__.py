"""Commands: messages to a route that begin with `/`, read, judged by a table and carried out one work item after another.

`call` reads a message, `judgement` finds language and complexity, `table` who works, `errand` what they are told,
`course` has them work, `report` makes one result of all, `earlier` finds what the same command left unfinished.
"""
