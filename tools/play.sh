#!/bin/sh
# Play the examples, message by message, as their users would type them: offline, rehearsed whatever keys there are, and each
# time from the beginning. What they leave behind is in .demo.
set -eu
cd "$(dirname "$0")/.."

rm -rf .demo
mkdir .demo
export DESK_HOME="$PWD/.demo"
unset ANTHROPIC_API_KEY || true

for example in assistant coordinator; do
  while IFS= read -r said; do
    printf '\n%s\n' "$said"
    .venv/bin/outrider --config "examples/$example/config.yaml" --db ".demo/$example.db" \
      chat --user "${said%%: *}" "${said#*: }" </dev/null
  done <"examples/$example/conversation.txt"
done

printf '\nHow are the lighthouses?\n'
.venv/bin/outrider --config examples/nested/config.yaml --db .demo/nested.db run Desk 'How are the lighthouses?' </dev/null

printf '\nwhat to type next\n'
printf '  outrider sql "select agent, role, status, step_id, task from executions order by created_at" --db .demo/assistant.db\n'
printf '  DESK_HOME=.demo outrider chat --config examples/assistant/config.yaml --db .demo/assistant.db\n'
