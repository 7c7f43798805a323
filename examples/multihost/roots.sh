#!/usr/bin/env bash
# roots.sh EVENTS...: compares the event logs of a run's peers, and fails unless all applied the same state root after the same slot.
# What a peer applied before it moved to another chain (run.switched) does not count.
set -euo pipefail
[ $# -gt 0 ] || { echo 'usage: roots.sh EVENTS...' >&2 && exit 2; }

awk '
function value(key,    rest) {
	if (!match($0, "\"" key "\": ?\"?[^\",}]*")) return ""
	rest = substr($0, RSTART, RLENGTH)
	sub(/^"[^"]*": ?"?/, "", rest)
	return rest
}
value("event") == "run.switched" {
	for (key in root) if (index(key, FILENAME SUBSEP) == 1) delete root[key]
}
value("event") == "slot.applied" || value("event") == "state.synced" {
	root[FILENAME, value("slot")] = value("state_root")
}
END {
	for (key in root) {
		split(key, at, SUBSEP)
		slot = at[2]
		slots[slot] = 1
		if (!(slot in first)) { first[slot] = root[key]; from[slot] = at[1] }
		else if (first[slot] != root[key]) {
			printf "slot %d: %s has root %s, %s has %s\n", slot, from[slot], first[slot], at[1], root[key]
			bad = 1
		}
		if (slot + 0 > newest) newest = slot + 0
	}
	for (slot in slots) n++
	if (n == 0) { print "no event log tells of an applied slot"; exit 1 }
	if (bad) { print "state roots DIFFER"; exit 1 }
	printf "state roots are equal on all peers after each of %d slots; newest %d: %s\n", n, newest, first[newest]
}' "$@"
