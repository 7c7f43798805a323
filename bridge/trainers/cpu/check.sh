#!/bin/sh
# Checks the C trainer: builds it with every warning an error and tries it through its ABI (test.c), plain and with sanitizers. With
# all it does so under valgrind, too, which must be installed then. It leaves nothing behind.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# build NAME FLAGS... makes library and test program in a folder of that name.
build() {
	name=$1
	shift
	CFLAGS=$* WERROR=-Werror "$here/build.sh" "$work/$name"
	"${CC:-cc}" -std=c11 -D_DEFAULT_SOURCE "$@" -Wall -Wextra -Werror -I"$here/../../include" -o "$work/$name/test" \
		"$here/test.c" "$here/test_training.c" -ldl -lm -lpthread
	mkdir "$work/$name/files"
}

# try NAME SLOW [WRAPPER...] runs the test of that folder; SLOW is "" or slow.
try() {
	folder=$work/$1 slow=$2
	shift 2
	"$@" "$folder/test" "$folder/libp2pdiloco_cpu.so" "$folder/files" ${slow:+"$slow"}
}

build plain -O3
try plain ''
build addresses -DANY_PROCESSOR -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all
try addresses ''
build threads -O1 -g -fsanitize=thread
try threads slow
[ "${1-}" = all ] || exit 0
build valgrind -O2 -g
# Fairly: else, with a core to spare, one thread may wait minutes for the others.
try valgrind slow valgrind --quiet --fair-sched=yes --leak-check=full --show-leak-kinds=all --errors-for-leak-kinds=all --error-exitcode=1
