package sources

import (
	"slices"
	"strings"
)

// maxTypos is how many letters a name may be off for another to be suggested; one in three at most.
const maxTypos = 3

// maxTypo is the longest name that is taken for a mistyped one, in bytes.
const maxTypo = 64

// Nearest is the one of names that is closest to a mistyped name, "" if none is close.
func Nearest(name string, names []string) (best string) {
	if len(name) > maxTypo {
		return ""
	}
	least := maxTypos + 1
	for _, candidate := range slices.Sorted(slices.Values(names)) {
		d := distance(name, candidate)
		begun := len(name) > 1 && strings.HasPrefix(candidate, name)
		if begun {
			d = min(d, 1)
		}
		if d < least && (begun || 3*d <= len(name)) {
			best, least = candidate, d
		}
	}
	return best
}

// distance is the least number of letters to insert, drop or replace to make b of a (Levenshtein 1966).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		corner := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := corner
			if a[i] != b[j] {
				replaced++
			}
			corner = row[j+1]
			row[j+1] = min(replaced, corner+1, row[j]+1)
		}
	}
	return row[len(b)]
}
