package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// maxTypos is how many letters a flag may be off for another to be suggested.
const maxTypos = 3

// flagError says a flag's error in plain words, and adds the flag that may have been meant.
func flagError(cmd *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	var number *strconv.NumError
	if errors.As(err, &invalid) && errors.As(err, &number) {
		return usageError(fmt.Errorf("--%s %s: allowed: a whole number, 0 or above", invalid.GetFlag().Name, invalid.GetValue()))
	}
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return usageError(err)
	}
	if near := nearest(cmd.Flags(), unknown.GetSpecifiedName()); near != "" {
		err = fmt.Errorf("%w: did you mean --%s?", err, near)
	}
	return usageError(err)
}

// nearest is the flag whose name is closest to name, "" if none is close.
func nearest(flags *pflag.FlagSet, name string) (best string) {
	least := maxTypos + 1
	flags.VisitAll(func(f *pflag.Flag) {
		d := distance(name, f.Name)
		if strings.HasPrefix(f.Name, name) {
			d = 1
		}
		if d < least && d < len(name) && !f.Hidden {
			best, least = f.Name, d
		}
	})
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
