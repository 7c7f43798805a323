#!/usr/bin/env bash
# Runs a swarm on the hosts of a list, over ssh or whatever $SSH is. README.md tells how; settings are in swarm.env.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=swarm.env disable=SC1091 # looked at by itself
source "${SETTINGS:-$here/swarm.env}"
out=${OUT:-swarm-$RUN} # what deploy makes and collect brings
read -ra ssh <<<"$SSH"

usage() {
	cat <<'END'
usage: swarm.sh COMMAND [HOST...]

  deploy     copy the program, and $DATA, to the hosts
  bootstrap  start the bootstrap node on the first host of the list
  join       start a peer on each host
  status     what each peer knows: phase, slot, members, state root
  wait       until all peers have ended, at most $WAIT seconds (3600)
  stop       have the peers leave the run, and wait; without HOSTs, stop the bootstrap node too
  kill       kill -9 the peers, to see what the others do
  collect    fetch event logs, reports and logs into $OUT, and check that all state roots agree

Without HOSTs, a command concerns all hosts of $HOSTS (hosts.txt).
END
	exit 2
}

die() {
	printf 'swarm.sh: %s\n' "$*" >&2
	exit 1
}

# Hosts in the order of the list, and the address of each.
names=()
declare -A address

read_hosts() {
	local file=${HOSTS:-$here/hosts.txt} name where
	while read -r name where _; do
		[[ $name == '' || $name == '#'* ]] && continue
		[[ $name == -* ]] && die "$file: $name is no host"
		names+=("$name")
		address[$name]=${where:-${name#*@}}
	done <"$file"
	[ ${#names[@]} -gt 0 ] || die "$file names no host"
}

# on HOST COMMAND runs a shell command in the swarm's folder on a host. Its input is empty unless `feed` gives some.
on() { feed "$1" "$2" </dev/null; }
feed() { "${ssh[@]}" "$1" "mkdir -p ${REMOTE_DIR@Q} && cd ${REMOTE_DIR@Q} && { $2; }"; }

# each FUNCTION HOST... calls it for every host and goes on after a failure, which it returns.
each() {
	local call=$1 host failed=0
	shift
	for host; do
		"$call" "$host" || { printf '%s: failed\n' "$host" >&2 && failed=1; }
	done
	return "$failed"
}

# A daemon NAME writes NAME.out and NAME.log, and its process ID is in NAME.pid. A number that another program has by now is not its.
# shellcheck disable=SC2016 # expanded on the host
runs='runs() { [ -f "$1.pid" ] && grep -qas p2pdiloco "/proc/$(cat "$1.pid")/cmdline"; }'

# start HOST NAME ARGUMENTS starts the program with arguments quoted for the host's shell.
start() {
	on "$1" "$runs; if runs $2; then echo '$1: $2 runs already'; else
		setsid ./p2pdiloco $2 $3 >$2.out 2>>$2.log </dev/null & echo \$! >$2.pid; echo '$1: $2 started'; fi"
}

deploy() {
	[ -x "$program" ] || die "$program is not there or cannot be run: build it first, or leave BINARY empty"
	feed "$1" 'cat >p2pdiloco.new && chmod 755 p2pdiloco.new && mv p2pdiloco.new p2pdiloco' <"$program"
	if [ -n "$DATA" ]; then
		tar -C "$(dirname "$DATA")" -cf - "$(basename "$DATA")" | feed "$1" 'rm -rf data && mkdir data && tar -C data -xf -'
	fi
	printf '%s: deployed\n' "$1"
}

build() {
	program=$BINARY
	[ -n "$program" ] && return
	program=$out/p2pdiloco
	mkdir -p "$out"
	CGO_ENABLED=0 go build -C "$here/../.." -trimpath -o "$(realpath "$program")" ./cmd/p2pdiloco
}

# The bootstrap node says its ID; its address is the one that the list gives.
bootstrap() {
	local host=${names[0]} where family=dns4 id=''
	where=${address[$host]}
	[[ $where =~ ^[0-9.]+$ ]] && family=ip4
	[[ $where == *:* ]] && family=ip6
	start "$host" bootstrap "--listen /ip4/0.0.0.0/tcp/$BOOTSTRAP_PORT --listen /ip4/0.0.0.0/udp/$BOOTSTRAP_PORT/quic-v1 \
		--identity bootstrap.key --addr-file bootstrap.addr"
	for _ in {1..40}; do
		id=$(on "$host" "sed -n 's|.*/p2p/||p' bootstrap.addr 2>/dev/null | head -n 1")
		[ -n "$id" ] && break
		sleep 0.5
	done
	[ -n "$id" ] || die "the bootstrap node on $host did not start: see $REMOTE_DIR/bootstrap.log there"
	mkdir -p "$out"
	printf '/%s/%s/tcp/%s/p2p/%s\n' "$family" "$where" "$BOOTSTRAP_PORT" "$id" | tee "$out/bootstrap.addr"
}

join() {
	local data=''
	[ -z "$DATA" ] || data='--data data'
	start "$1" join "--run ${RUN@Q} --bootstrap ${from@Q} --preset $PRESET --rounds $ROUNDS --inner-steps $INNER_STEPS \
		--start-peers ${START_PEERS:-${#names[@]}} --listen /ip4/0.0.0.0/tcp/$PEER_PORT --listen /ip4/0.0.0.0/udp/$PEER_PORT/quic-v1 \
		--data-dir peer --events events.jsonl --json $data $JOIN_FLAGS"
}

# field KEY prints the first value of a key in a JSON document on stdin.
field() { grep -oE "\"$1\": ?(\"[^\"]*\"|[^,}]*)" | head -n 1 | sed -E 's/^"[^"]*": ?//; s/"//g'; }

status() {
	local json members
	json=$(on "$1" "$runs; if runs join; then ./p2pdiloco status --json --data-dir peer 2>/dev/null || echo mute; fi")
	case $json in
	'') printf '%-24s not running. %s\n' "$1" "$(on "$1" 'tail -n 1 join.log 2>/dev/null || true')" && return ;;
	mute) printf '%-24s running, but gives no answer: see %s/join.log there\n' "$1" "$REMOTE_DIR" && return ;;
	esac
	members=$(grep -oE '"state": ?"' <<<"$json" | wc -l)
	printf '%-24s %-10s slot %s of %s  members %s  root %.16s\n' "$1" "$(field phase <<<"$json")" "$(field slot <<<"$json")" \
		"$(field last_slot <<<"$json")" "$members" "$(field state_root <<<"$json")"
}

ask_to_stop() { on "$1" "$runs; if runs $daemon; then kill -TERM \"\$(cat $daemon.pid)\"; fi"; }
kill_now() { on "$1" "$runs; if runs $daemon; then kill -KILL \"\$(cat $daemon.pid)\"; fi"; }
has_ended() { on "$1" "$runs; ! runs $daemon"; }

# wait_for SECONDS HOST... waits until the daemons there have ended.
wait_for() {
	local deadline=$((SECONDS + $1)) host running
	shift
	while :; do
		running=()
		for host; do
			has_ended "$host" || running+=("$host")
		done
		[ ${#running[@]} -eq 0 ] && return
		[ "$SECONDS" -lt "$deadline" ] || die "still running: ${running[*]}"
		sleep 0.3
	done
}

stop() {
	daemon='join'
	each ask_to_stop "$@"
	wait_for "$STOP_WAIT" "$@"
	[ $all = no ] && return
	daemon='bootstrap'
	ask_to_stop "${names[0]}"
	wait_for "$STOP_WAIT" "${names[0]}"
}

collect() {
	mkdir -p "$out/$1"
	on "$1" 'cat events.jsonl 2>/dev/null || true' >"$out/$1/events.jsonl"
	on "$1" 'cat join.out 2>/dev/null || true' >"$out/$1/report.json"
	on "$1" 'cat join.log 2>/dev/null || true' >"$out/$1/join.log"
}

# compare prints where each host ended and fails unless equal slots had equal roots everywhere.
compare() {
	local host report files=() bare=0
	for host; do
		report=$(cat "$out/$host/report.json")
		files+=("$out/$host/events.jsonl")
		if [ -z "$report" ]; then
			printf '%-24s has no report: it runs still, was killed, or knew not which run is meant (%s/%s/join.log)\n' \
				"$host" "$out" "$host"
			bare=$((bare + 1))
			continue
		fi
		printf '%-24s ended %-5s slot %s  loss %s  root %s\n' "$host" "$(field ended <<<"$report")" "$(field slot <<<"$report")" \
			"$(field loss_last <<<"$report")" "$(field state_root <<<"$report")"
	done
	"$here/roots.sh" "${files[@]}"
	[ $bare -lt $# ] || die 'no host has a report'
}

main() {
	local command=${1:-} from=''
	[ $# -gt 0 ] || usage
	shift
	read_hosts
	all=no
	[ $# -gt 0 ] || { all=yes && set -- "${names[@]}"; }
	daemon='join'
	case $command in
	deploy) build && each deploy "$@" ;;
	bootstrap) bootstrap ;;
	join)
		from=$(cat "$out/bootstrap.addr") || die 'no bootstrap address known: run swarm.sh bootstrap first'
		each join "$@"
		;;
	status) each status "$@" ;;
	wait) wait_for "${WAIT:-3600}" "$@" ;;
	stop) stop "$@" ;;
	kill) each kill_now "$@" ;;
	collect) each collect "$@" && compare "$@" ;;
	*) usage ;;
	esac
}

main "$@"
