#!/bin/sh
# Counts the words of a message. An agent in a page of shell; docs/guides/exec.md explains each step.
#
#     sabir serve --exec "$PWD/examples/exec/wordcount.sh"
set -eu

# The message's text is on standard input.
cat >text

# 75 asks a question: the last line that was printed. The answer is the next message, and starts this command again.
if ! grep -q '[^[:space:]]' text; then
    echo "Which text shall I count?"
    exit 75
fi

# 77 declines.
if [ "$(wc -c <text)" -gt 1000000 ]; then
    echo "I count at most a megabyte."
    exit 77
fi

# Lines on descriptor 3 are events.
echo '{"status":"counting"}' >&3

# What is printed is the answer, and streams as it is printed.
words=$(($(wc -w <text)))
lines=$(($(grep -c '' text)))
echo "$words words on $lines lines"

# Files become artifacts. The working directory is private and gone afterwards, so scratch files need no care.
tr -s '[:space:]' '\n' <text | sed '/^$/d' | sort | uniq -c | sort -rn >counted
head -n 10 counted | sed 's/^ *//' >"$A2A_OUT_DIR/frequent.txt"
printf '{"words":%d,"lines":%d}\n' "$words" "$lines" >"$A2A_OUT_DIR/counts.json"
