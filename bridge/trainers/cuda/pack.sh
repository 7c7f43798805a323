#!/usr/bin/env bash
# Makes the folder that check.sh needs on a machine with a GPU and without Go or a network: pack.sh FOLDER, which is replaced.
#
# It holds the program p2pdiloco (compressed), the Python package, these sources, and text to train on. It must be
# made on a system whose C library is no newer than the other machine's.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
[ $# -eq 1 ] || { echo 'usage: pack.sh FOLDER' >&2; exit 2; }
folder=$1
most=$((56 << 20)) # bytes: what carries it may take 64 MiB in all

if [ -e "$folder" ] && [ ! -e "$folder/PACKED" ]; then
	echo "pack.sh: $folder exists and is not of pack.sh: remove it, or name another one" >&2
	exit 1
fi
rm -rf "$folder"
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
git -C "$root" describe --always --dirty >"$folder/PACKED"

cd "$root"
CGO_ENABLED=1 go build -trimpath -ldflags='-s -w' -o "$folder/p2pdiloco" ./cmd/p2pdiloco
gzip -9 "$folder/p2pdiloco"

# Tracked files and those that git does not ignore.
sources() { git ls-files -co --exclude-standard -- "$@"; }

mkdir "$folder/sources" "$folder/text"
sources bridge/include bridge/trainers bridge/python examples/pytorch | while read -r path; do
	[ ! -f "$path" ] || cp --parents "$path" "$folder/sources"
done
sources '*.go' '*.md' | while read -r path; do
	[ ! -f "$path" ] || cp --parents "$path" "$folder/text"
done
# The corpus passes over folders of these names.
find "$folder/text" -depth -type d \( -name testdata -o -name vendor \) -exec rm -r {} +

bytes=$(du -sb "$folder" | cut -f1)
echo "$folder: $((bytes >> 20)) MiB of at most $((most >> 20))"
[ "$bytes" -le "$most" ] || { echo "pack.sh: too large to be carried" >&2; exit 1; }
