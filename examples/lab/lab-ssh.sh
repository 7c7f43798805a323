#!/bin/sh
# lab-ssh.sh HOST COMMAND...: what ssh is for real hosts. Runs a shell command on a node of the lab, in a home folder of its own.
set -eu
host=$1
shift
cd "$LAB_DIR/hosts/$host"
exec ip netns exec "$(cat namespace)" env HOME="$PWD" XDG_STATE_HOME="$PWD/.local/state" sh -c "$*"
