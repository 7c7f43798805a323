#!/bin/sh
# A run of three programs on this machine, of which two train with builtin:gpt and one with the C trainer: run.sh PROGRAM LIBRARY.
# All must end with the same state, and a lower loss than they began with. It takes about 15 seconds.
set -eu
program=$1 library=$2
work=$(mktemp -d)
peers=
trap 'for p in $peers; do kill "$p" 2>/dev/null || true; done; rm -rf "$work"' EXIT

mkdir "$work/text"
for i in $(seq 40); do
	for word in peer trainer model member gradient; do
		for line in 1 2 3 4 5 6 7 8 9; do echo "the $word $i sends line $line to all others"; done
	done >"$work/text/$i.txt"
done
echo "{\"data\": \"$work/text\"}" >"$work/trainer.json"

# join NAME FLAGS... starts a peer.
join() {
	name=$1
	shift
	timeout 120 "$program" join --run "c-and-go-$$" --rounds 4 --inner-steps 20 --start-peers 3 --momentum 0.6 --preset lan --json \
		--listen /ip4/127.0.0.1/tcp/0 --data-dir "$work/$name" --events "$work/$name.events" "$@" >"$work/$name.json" 2>"$work/$name.log" &
	peers="$peers $!"
}

join first --data "$work/text"
address=
for i in $(seq 300); do
	[ -n "$address" ] && break
	sleep 0.1
	address=$(sed -n 's/.*--bootstrap //p' "$work/first.log")
done
join second --data "$work/text" --bootstrap "$address"
join c --trainer "$library" --trainer-config "$work/trainer.json" --bootstrap "$address"
for p in $peers; do
	wait "$p" || { cat "$work"/*.log && exit 1; }
done
cat "$work/c.log"

# value KEY NAME prints a number or text of a peer's report.
value() { sed -n "s/.*\"$1\":\"\{0,1\}\([^,\"}]*\).*/\1/p" "$work/$2.json"; }

for name in first second c; do
	echo "$name: state root $(value state_root $name), held-out loss $(value loss_first $name) -> $(value loss_last $name)"
	if [ "$(value state_root $name)" != "$(value state_root first)" ] || [ "$(value slot $name)" != 4 ] ||
		! awk "BEGIN { exit !($(value loss_last $name) < $(value loss_first $name) / 2) }"; then
		echo "$name did not end with the first one's state, or has learnt nothing"
		exit 1
	fi
done
