#!/bin/sh
# Play the examples, or those that are named: `tools/play.sh crew nested`. The conversations message by message, as their
# users would type them; then what is run by its name, and what was written. Offline, rehearsed whatever keys there are, and
# each time from the beginning. What an example leaves behind is in .demo/NAME.
set -eu
cd "$(dirname "$0")/.."
unset ANTHROPIC_API_KEY REPORTER_SOURCE REPORTER_LIBRARY OUTRIDER_CONFIG OUTRIDER_DATABASE_URL || true

ALL='assistant coordinator crew reporter nested'
bold='' plain=''
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ] && [ "${TERM:-dumb}" != dumb ]; then bold=$(printf '\033[1m') plain=$(printf '\033[0m'); fi

heading() { # what it is stands in the first line of its configuration
  about=$(sed -n '1s/^# *//p' "examples/$example/config.yaml")
  printf '\n%s══ %s (%s of %s) ══%s\n%s\n' "$bold" "$example" "$number" "$#" "$plain" "$about"
}

outrider() {
  .venv/bin/outrider --config "examples/$example/config.yaml" --db ".demo/$example/outrider.db" "$@" </dev/null
}

typed() { # a command as it would be typed, then what it does
  printf '\n%s$ outrider' "$bold"
  for word; do case $word in *' '*) printf ' "%s"' "$word" ;; *) printf ' %s' "$word" ;; esac done
  printf '%s\n' "$plain"
  outrider "$@"
}

next() { # something to type, with the files of the example, and a variable before it
  printf '  %s.venv/bin/outrider --config examples/%s/config.yaml --db .demo/%s/outrider.db %s\n' "${2:-}" "$example" "$example" "$1"
}

converse() {
  while IFS= read -r said; do
    printf '\n%s%s%s\n' "$bold" "$said" "$plain"
    outrider chat --user "${said%%: *}" "${said#*: }" || { test $? -eq 1 && test "$example" = crew; } # one of its commands fails and says why
  done <"examples/$example/conversation.txt"
}

play_assistant() {
  export DESK_HOME="$PWD/.demo/assistant/desk"
  converse
  printf '\nwhat to type next\n'
  next 'sql "select agent, role, status, step_id, task from executions order by created_at"'
  next chat 'DESK_HOME=.demo/assistant/desk '
}

play_coordinator() {
  export DESK_HOME="$PWD/.demo/coordinator/desk"
  converse
}

play_crew() {
  export CREW_HOME="$PWD/.demo/crew/work"
  converse
  typed errors
  typed ps --registry
  printf '\nwhat to type next\n'
  next 'chat --user sam "/implement 195"' 'CREW_HOME="$PWD/.demo/crew/work" '
}

play_reporter() {
  export REPORTER_OUTPUT="$PWD/.demo/reporter/output"
  typed run first-look
  typed run documenter
  typed run researcher --input 'topic=write-ahead logging' --input depth=comprehensive
  for page in index setup; do
    printf '\n%s.demo/reporter/output/docs/%s.md%s\n\n' "$bold" "$page" "$plain"
    cat ".demo/reporter/output/docs/$page.md"
  done
  printf '\nwhat to type next\n'
  next 'run documenter' 'REPORTER_SOURCE=~/your/project '
}

play_nested() {
  typed run Desk 'How are the lighthouses?'
}

for example; do
  case " $ALL " in
  *" $example "*) ;;
  *)
    printf 'error: no example `%s`\n\nhint: there are %s\n' "$example" "$(echo "$ALL" | sed 's/ /, /g')" >&2
    exit 2
    ;;
  esac
done
# shellcheck disable=SC2086 # the names are words
[ $# -gt 0 ] || set -- $ALL
number=0
for example; do
  number=$((number + 1))
  rm -rf ".demo/$example"
  mkdir -p ".demo/$example"
  heading "$@"
  "play_$example"
done
