#!/usr/bin/env bash
# A swarm on network namespaces of this machine, by the same scripts as on real hosts. README.md tells how. Needs root and Go.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
export LAB_DIR=${LAB_DIR:-/var/lib/p2plab}
socket=$LAB_DIR/lab.sock

usage() {
	cat <<'END'
usage: lab.sh COMMAND

  up N [--rate 200mbit] [--delay 25ms] [--jitter 5ms] [--loss 1%] [--queue BYTES] [--mtu 1500] [--seed 1]
                          make nodes n1 to nN; the settings are those of each node's link
  swarm COMMAND [NODE...] examples/multihost/swarm.sh on the nodes: deploy, bootstrap, join, status, wait, stop, kill, collect
  exec NODE COMMAND...    run a command on a node

  cut NODE...             unplug nodes
  cutpair NODE NODE       keep two nodes from reaching each other
  partition N1,N2 N3,...  groups that cannot reach each other
  heal [NODE...]          end these nodes' cuts, or all
  slow NODE... RATE       change the rate of nodes' links
  link NODE...|all KEY=VALUE...   change links: rate, delay, jitter, loss, queue, reorder
  pair NODE NODE KEY=VALUE...     a further link between two nodes
  stats                   links, bytes and lost packets by node

  down                    end all processes on the nodes and remove everything
  demo                    the whole story in about a minute: 5 nodes, a cut, a late peer, a kill -9, equal roots
END
	exit 2
}

die() {
	printf 'lab.sh: %s\n' "$*" >&2
	exit 1
}

say() { printf '\n-- %s\n' "$*"; }

change() {
	[ -S "$socket" ] || die 'the lab is not up'
	"$LAB_DIR/bin/p2plab" lab "do" "$socket" "$@"
}

is_up() { [ -S "$socket" ] && change nodes >/dev/null 2>&1; }

# swarm runs the scripts for real hosts. Settings that are not given fit a few minutes on one machine.
swarm() {
	is_up || die 'the lab is not up'
	SSH="$here/lab-ssh.sh" HOSTS=$LAB_DIR/hosts.txt OUT=$LAB_DIR/collected BINARY=$LAB_DIR/bin/p2pdiloco DATA=${DATA:-$LAB_DIR/text.txt} \
		RUN=${RUN:-lab} ROUNDS=${ROUNDS:-20} INNER_STEPS=${INNER_STEPS:-20} PRESET=${PRESET:-lan} STOP_WAIT=${STOP_WAIT:-60} \
		JOIN_FLAGS="--momentum 0.6 ${JOIN_FLAGS:-}" "$root/examples/multihost/swarm.sh" "$@"
}

build() {
	mkdir -p "$LAB_DIR/bin"
	go build -C "$root" -o "$LAB_DIR/bin/" ./cmd/p2pdiloco ./cmd/p2plab
	# The peers' text: this repository's source, so that nothing has to be fetched.
	(cd "$root" && find . -name '*.go' -not -path './.*' -print0 | sort -z | xargs -0 cat) >"$LAB_DIR/text.txt"
}

up() {
	local nodes=${1:-} settings=() host namespace where
	[[ $nodes =~ ^[0-9]+$ ]] || die "up wants a number of nodes: lab.sh up 4 --rate 200mbit --delay 25ms"
	shift
	while [ $# -gt 0 ]; do
		[[ $1 == --?* && $# -ge 2 ]] || die "up: $1: want --KEY VALUE"
		settings+=("${1#--}=$2")
		shift 2
	done
	[ "$(id -u)" -eq 0 ] || die 'network namespaces need root: run this with sudo'
	is_up && die 'the lab is up already: lab.sh down first'
	install -d -m 700 "$LAB_DIR"
	build
	setsid "$LAB_DIR/bin/p2plab" lab up "$nodes" "$socket" "${settings[@]}" >"$LAB_DIR/lab.out" 2>"$LAB_DIR/lab.log" </dev/null &
	await_lab $!
	rm -rf "$LAB_DIR/hosts" "$LAB_DIR/hosts.txt"
	while read -r host namespace where; do
		mkdir -p "$LAB_DIR/hosts/$host"
		echo "$namespace" >"$LAB_DIR/hosts/$host/namespace"
		echo "$host $where" >>"$LAB_DIR/hosts.txt"
	done < <(change nodes)
	cat "$LAB_DIR/hosts.txt"
}

# await_lab PID waits until the network stands.
await_lab() {
	for _ in {1..100}; do
		grep -qx ready "$LAB_DIR/lab.out" && return
		kill -0 "$1" 2>/dev/null || die "$(cat "$LAB_DIR/lab.log")"
		sleep 0.1
	done
	die "the lab does not get ready: $(cat "$LAB_DIR/lab.log")"
}

# down ends what runs on the nodes, then the network, and removes the folder: it holds nothing that `up` does not make again.
down() {
	local file namespace pid
	for file in "$LAB_DIR"/hosts/*/namespace; do
		[ -f "$file" ] || continue
		namespace=$(cat "$file")
		[ -e "/run/netns/$namespace" ] || continue
		for pid in $(ip netns pids "$namespace"); do
			kill -KILL "$pid" 2>/dev/null || true # it has just ended
		done
	done
	if is_up; then
		change down
		for _ in {1..100}; do
			[ -S "$socket" ] || break
			sleep 0.1
		done
	fi
	if [ -x "$LAB_DIR/bin/p2plab" ]; then "$LAB_DIR/bin/p2plab" lab clean; fi # if it crashed
	rm -f "$socket"
	rm -rf "${LAB_DIR:?}/bin" "${LAB_DIR:?}/hosts" "${LAB_DIR:?}/collected"
	rm -f "$LAB_DIR/hosts.txt" "$LAB_DIR/text.txt" "$LAB_DIR/lab.out" "$LAB_DIR/lab.log"
	if [ -d "$LAB_DIR" ]; then rmdir "$LAB_DIR"; fi
}

slow() {
	[ $# -ge 2 ] || die 'want slow NODE... RATE, such as slow n2 1mbit'
	change link "${@:1:$#-1}" "rate=${*: -1}"
}

# applied NODE is the newest slot that a node's peer has applied.
applied() {
	local slot
	slot=$(grep -hs '"event":"slot.applied"' "$LAB_DIR/hosts/$1/p2pdiloco-swarm/events.jsonl" | grep -oE '"slot":[0-9]+' | tail -n 1) || true
	slot=${slot#*:}
	echo "${slot:-0}"
}

# until_slot N NODE waits until a node has applied slot N.
until_slot() {
	local deadline=$((SECONDS + 120)) at
	while :; do
		at=$(applied "$2")
		[ "$at" -lt "$1" ] || return 0
		[ "$SECONDS" -lt "$deadline" ] || die "$2 has not applied slot $1 after two minutes; it is at slot $at"
		sleep 0.2
	done
}

demo() {
	export LAB_DIR
	LAB_DIR=$(mktemp -d /var/tmp/p2plab.XXXXXX)
	socket=$LAB_DIR/lab.sock
	trap 'down' EXIT
	trap 'exit 130' INT TERM
	export RUN=lab-demo ROUNDS=${ROUNDS:-24} INNER_STEPS=${INNER_STEPS:-10} START_PEERS=4
	export JOIN_FLAGS=${JOIN_FLAGS---model width=64,batch=8}
	say 'five nodes, links of 200 Mbit/s, 10 ms each way, 2 ms of jitter, 0.1% loss'
	up 5 --rate 200mbit --delay 10ms --jitter 2ms --loss 0.1%
	swarm deploy >/dev/null
	say 'a bootstrap node on n1, peers on n1 to n4'
	swarm bootstrap
	swarm join n1 n2 n3 n4
	until_slot 3 n1
	swarm status
	say 'n2 is unplugged; the others go on without it'
	change cut n2
	until_slot $(($(applied n1) + 4)) n1
	swarm status n1 n2
	say 'n2 is plugged in again, and n5 joins late'
	change heal
	swarm join n5
	say 'kill -9 of the peer on n3; it is started again with its data'
	swarm kill n3
	until_slot $(($(applied n1) + 2)) n1
	swarm join n3
	say 'n4 has a bad line for a while: 4 Mbit/s and 2% loss'
	change link n4 rate=4mbit loss=2%
	until_slot $(($(applied n1) + 3)) n1
	change link n4 rate=200mbit loss=0.1%
	WAIT=180 swarm wait
	change stats
	say 'what they ended with'
	swarm collect
	say 'all is cleaned up'
}

[ $# -gt 0 ] || usage
command=$1
shift
case $command in
up) up "$@" ;;
down) down ;;
demo) demo ;;
swarm) swarm "$@" ;;
exec) exec "$here/lab-ssh.sh" "$@" ;;
cut | cutpair | partition | heal | link | pair | stats) change "$command" "$@" ;;
slow) slow "$@" ;;
*) usage ;;
esac
