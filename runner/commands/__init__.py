"""Commands: messages to a route that begin with `/`, read, judged by a table and carried out one work item after another.

`call` reads a message, `judgement` finds language and complexity, `plan_file` the text of a plan, `table` who works,
`errand` what they are told; `course` has them work, `report` makes one result of all, `listing` an answer without anybody,
`earlier` finds what the same command left unfinished.
"""
