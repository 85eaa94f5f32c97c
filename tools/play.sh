#!/bin/sh
# Play the conversations of the examples, message by message, as their users would type them: offline, rehearsed whatever keys
# there are, and each time from the beginning. What they leave behind is in .demo.
set -eu
cd "$(dirname "$0")/.."

rm -rf .demo
mkdir .demo
export DESK_HOME="$PWD/.demo" CREW_HOME="$PWD/.demo/crew"
unset ANTHROPIC_API_KEY || true

for example in assistant coordinator crew; do
  while IFS= read -r said; do
    printf '\n%s\n' "$said"
    .venv/bin/outrider --config "examples/$example/config.yaml" --db ".demo/$example.db" \
      chat --user "${said%%: *}" "${said#*: }" </dev/null || test $? -eq 1 # it failed and says why: that is an answer
  done <"examples/$example/conversation.txt"
done

for looking in errors 'ps --registry'; do
  printf '\noutrider %s\n' "$looking"
  # shellcheck disable=SC2086 # a command and its option
  .venv/bin/outrider $looking --db .demo/crew.db
done

printf '\nwhat to type next\n'
printf '  outrider sql "select agent, role, status, step_id, task from executions order by created_at" --db .demo/assistant.db\n'
printf '  DESK_HOME=.demo outrider chat --config examples/assistant/config.yaml --db .demo/assistant.db\n'
printf '  CREW_HOME="$PWD/.demo/crew" outrider chat --user sam --config examples/crew/config.yaml --db .demo/crew.db "/implement 195"\n'
