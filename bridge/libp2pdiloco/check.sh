#!/usr/bin/env bash
# Builds the embedding library and proves what its header promises, with programs in C: those of testdata, and two processes of the example, which
# must end with the same model. It takes a C compiler and about a minute, most of it for the build.
#
#   bridge/libp2pdiloco/check.sh
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
flags=(-std=c11 -Wall -Wextra -Werror -g "-I$work")

./build.sh "$work"
printf '#include "p2pdiloco.h"\n' >"$work/header.c"
cc "${flags[@]}" -fsyntax-only "$work/header.c"
cc -x c++ -Wall -Wextra -Werror -fsyntax-only "-I$work" "$work/header.c"
for source in testdata/abi.c testdata/host.c testdata/late.c ../../examples/c/linear.c; do
	cc "${flags[@]}" -o "$work/$(basename "$source" .c)" "$source" "-L$work" -lp2pdiloco -lpthread -ldl "-Wl,-rpath,$work"
done

# The library has the functions of the header, and none of its own beside them.
names() { grep -oP "$1" "$2" | sort -u; }
diff <(names '\bp2pdiloco_[a-z]+(?=\()' ../include/p2pdiloco.h) <(nm -D --defined-only "$work/libp2pdiloco.so" | names '(?<= T )p2pdiloco\w*' /dev/stdin)

# quiet NAME COMMAND... runs a program that may say what it tests, and in which nobody else may say anything.
quiet() {
	local name=$1
	shift
	XDG_STATE_HOME="$work/state-$name" timeout 300 "$@" >"$work/$name.out" 2>"$work/$name.err" || {
		cat "$work/$name.out" "$work/$name.err"
		echo "$name failed"
		return 1
	}
	cat "$work/$name.out"
	if grep -v '^ok ' "$work/$name.out" || [ -s "$work/$name.err" ]; then
		cat "$work/$name.err"
		echo "$name: the library has written to the host's standard output or error"
		return 1
	fi
}
quiet abi "$work/abi"
quiet host "$work/host"
quiet late "$work/late" "$work/libp2pdiloco.so"

# Once more with the address sanitizer, whose leak check sees the texts that were not freed, Go or not. (Valgrind runs the library, too, but
# takes every goroutine's stack for an error.)
cc "${flags[@]}" -fsanitize=address,undefined -o "$work/sanitized" testdata/abi.c "-L$work" -lp2pdiloco -lpthread "-Wl,-rpath,$work"
quiet sanitized "$work/sanitized"

# The example says why a call failed.
if "$work/linear" "no name" 2>"$work/refused" >&2; then
	echo 'a run without a name was taken' >&2
	exit 1
fi
grep -q 'without spaces' "$work/refused" || { cat "$work/refused"; exit 1; }

# Two processes of the example: the second starts from the address that the first prints.
export XDG_STATE_HOME=$work/state
: >"$work/first"
timeout 300 "$work/linear" example >>"$work/first" 2>&1 &
first=$!
for _ in $(seq 100); do
	address=$(grep -oP 'others can start from \K\S+' "$work/first" || true)
	[ -n "$address" ] && break
	sleep 0.1
done
timeout 300 "$work/linear" example "$address" >"$work/second" 2>&1 || { cat "$work/second"; exit 1; }
wait "$first" || { cat "$work/first"; exit 1; }
tail -n 2 "$work/first"
grep -q '^state root [0-9a-f]\{64\}$' "$work/first"
diff <(tail -n 2 "$work/first") <(tail -n 2 "$work/second")
