#!/bin/sh
# Play the examples: the conversations message by message, as their users would type them, then what is run by its name, and
# what was written. Offline, rehearsed whatever keys there are, and each time from the beginning. What they leave behind is in
# .demo.
set -eu
cd "$(dirname "$0")/.."

rm -rf .demo
mkdir .demo
export DESK_HOME="$PWD/.demo" CREW_HOME="$PWD/.demo/crew" REPORTER_OUTPUT="$PWD/.demo/reporter"
unset REPORTER_SOURCE REPORTER_LIBRARY || true
unset ANTHROPIC_API_KEY || true

for example in assistant coordinator crew; do
  while IFS= read -r said; do
    printf '\n%s\n' "$said"
    .venv/bin/outrider --config "examples/$example/config.yaml" --db ".demo/$example.db" \
      chat --user "${said%%: *}" "${said#*: }" </dev/null || { test $? -eq 1 && test "$example" = crew; } # one of its commands fails and says why
  done <"examples/$example/conversation.txt"
done

for looking in errors 'ps --registry'; do
  printf '\noutrider %s\n' "$looking"
  # shellcheck disable=SC2086 # a command and its option
  .venv/bin/outrider $looking --db .demo/crew.db
done

report() {
  printf '\n$ outrider run'
  for word; do case $word in *' '*) printf ' "%s"' "$word" ;; *) printf ' %s' "$word" ;; esac done
  printf '\n'
  .venv/bin/outrider --config examples/reporter/config.yaml --db .demo/reporter.db run "$@" </dev/null
}

report first-look
report documenter
report researcher --input 'topic=write-ahead logging' --input depth=comprehensive
for page in index setup; do
  printf '\n.demo/reporter/docs/%s.md\n\n' "$page"
  cat ".demo/reporter/docs/$page.md"
done

printf '\nHow are the lighthouses?\n'
.venv/bin/outrider --config examples/nested/config.yaml --db .demo/nested.db run Desk 'How are the lighthouses?' </dev/null

printf '\nwhat to type next\n'
printf '  outrider sql "select agent, role, status, step_id, task from executions order by created_at" --db .demo/assistant.db\n'
printf '  DESK_HOME=.demo outrider chat --config examples/assistant/config.yaml --db .demo/assistant.db\n'
printf '  REPORTER_SOURCE=~/your/project outrider run documenter --config examples/reporter/config.yaml --db .demo/reporter.db\n'
printf '  CREW_HOME="$PWD/.demo/crew" outrider chat --user sam --config examples/crew/config.yaml --db .demo/crew.db "/implement 195"\n'
