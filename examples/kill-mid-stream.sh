#!/bin/sh
# Kill the server in the middle of a stream, start it again, and watch the stream go on from the next event.
#
#   examples/kill-mid-stream.sh            with `sabir` on the path; or SABIR=target/release/sabir
set -eu
sabir=${SABIR:-sabir}
home=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill -9 "$server" 2>/dev/null || true; rm -rf "$home"' EXIT

# An agent that counts to twelve, five times a second.
{
    printf '[[agent]]\nname = "count"\nkind = "script"\ndefault = true\n[[agent.rule]]\ndo = [{ status = "counting" }'
    for n in 1 2 3 4 5 6 7 8 9 10 11 12; do
        printf ', { wait_ms = 200 }, { artifact = { id = "n", text = "%s ", append = true } }' "$n"
    done
    printf ', { complete = "done" }]\n'
} > "$home/sabir.toml"

serve() { # at an address; says where it listens
    "$sabir" serve --config "$home/sabir.toml" --data "$home/data" --listen "$1" > "$home/out" 2>> "$home/log" &
    server=$!
    until grep -q listening "$home/out"; do
        kill -0 "$server" 2>/dev/null || { cat "$home/log" >&2; exit 1; }
        sleep 0.05
    done
    address=$(sed -n 's|^listening on http://||p' "$home/out")
}

serve 127.0.0.1:0
echo "the server listens on $address"
"$sabir" send -a "http://$address" --stream -o json count > "$home/stream" 2> "$home/client" &
client=$!
until [ "$(grep -c artifactUpdate "$home/stream" || true)" -ge 4 ]; do sleep 0.05; done
echo "four numbers have arrived; kill -9"
kill -9 "$server"
wait "$server" 2>/dev/null || true
sleep 0.5
serve "$address"
echo "the server is back"
wait "$client"
counted=$(sed -n 's/.*"artifactUpdate".*"text": *"\([0-9]*\) ".*/\1/p' "$home/stream" | tr '\n' ' ')
echo "the stream said: $counted"
[ "$counted" = "1 2 3 4 5 6 7 8 9 10 11 12 " ] || { echo "a number is missing, or came twice" >&2; exit 1; }
echo "every number once, in order"
