#!/usr/bin/env bash
# Hosts to try swarm.sh on: network namespaces of this machine, joined by a bridge. Needs root and iproute2.
#
#   namespaces.sh up N            makes hosts n1 to nN, with addresses 10.213.0.1 to 10.213.0.N, and a list of them, hosts.txt
#   namespaces.sh HOST COMMAND    what ssh is for real hosts: runs a shell command on one, in a home folder of its own
#   namespaces.sh cut|heal HOST   unplugs a host, and plugs it in again
#   namespaces.sh down            ends what runs on them, and removes everything
set -euo pipefail
dir=${NAMESPACES:-/var/tmp/p2pdiloco-hosts} # homes of the hosts, and the list

case ${1-} in
up)
	mkdir -m 700 "$dir"
	ip netns add p2p-bridge
	ip -n p2p-bridge link add bridge up type bridge
	for ((i = 1; i <= $2; i++)); do
		ip netns add "p2p-n$i"
		ip -n "p2p-n$i" link set lo up
		ip -n "p2p-n$i" link add eth0 type veth peer name "n$i" netns p2p-bridge
		ip -n "p2p-n$i" address add "10.213.0.$i/24" dev eth0
		ip -n "p2p-n$i" link set eth0 up
		ip -n p2p-bridge link set "n$i" up master bridge
		mkdir "$dir/n$i"
		echo "n$i 10.213.0.$i" >>"$dir/hosts.txt"
	done
	;;
cut) ip -n p2p-bridge link set "$2" down ;;
heal) ip -n p2p-bridge link set "$2" up ;;
down)
	for space in $(ip netns list | grep -oE '^p2p-(n[0-9]+|bridge)\b'); do
		ip netns pids "$space" | xargs -r kill -KILL
		ip netns delete "$space"
	done
	rm -rf "$dir"
	;;
n[1-9]*)
	space=p2p-$1 home=$dir/$1
	shift
	cd "$home"
	exec ip netns exec "$space" env HOME="$home" XDG_STATE_HOME="$home/.local/state" sh -c "$*"
	;;
*) sed -n 's/^#   //p' "$0" >&2 && exit 2 ;;
esac
