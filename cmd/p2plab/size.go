package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// byteSize is a number of bytes; as a flag with KiB, MiB or GiB behind it.
type byteSize uint64

// Set reads a size.
func (b *byteSize) Set(s string) error {
	for shift, unit := range map[int]string{10: "KiB", 20: "MiB", 30: "GiB"} {
		if text, ok := strings.CutSuffix(s, unit); ok {
			if n, err := strconv.ParseUint(text, 10, 64); err == nil && n > 0 && n <= math.MaxUint64>>shift {
				*b = byteSize(n << shift)
				return nil
			}
		}
	}
	return errors.New("allowed: a whole number with KiB, MiB or GiB behind it, such as 64MiB")
}

func (b *byteSize) String() string {
	if *b == 0 {
		return ""
	}
	return fmt.Sprintf("%dKiB", *b>>10)
}

// Type is what help calls the value.
func (b *byteSize) Type() string { return "size" }
