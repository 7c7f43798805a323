package spec

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/outeropt"
)

// Checks of spec fields: each returns what is allowed, or "" if the value is.

func oneOf(allowed ...string) func(string) string {
	return func(v string) string {
		if slices.Contains(allowed, v) {
			return ""
		}
		return "allowed: " + strings.Join(allowed, ", ")
	}
}

func checkCodec(v string) string {
	if _, err := codec.New(v); err != nil {
		return "allowed: " + strings.Join(codec.Names(), ", ") + ", topk:K:BITS (1 to 1024 values of 4096; 2 or 4 bits)"
	}
	return ""
}

func checkOutcomeCodec(v string) string {
	if _, err := codec.NewOutcome(codec.F32, v); err != nil {
		return "allowed: f32, bf16, int8, int4, topk:K:BITS (1 to 1024 values of 4096; 2 or 4 bits)"
	}
	return ""
}

func checkOuter(v string) string { return oneOf(outeropt.Names()...)(v) }

// checkKernel names the optimizer that a program has to register for the run.
func checkKernel(v string) string {
	version, outer, custom := strings.Cut(v, "+")
	name, number, _ := strings.Cut(outer, "/")
	switch c, ok := outeropt.Registered(name); {
	case version != KernelVersion:
		return "allowed: " + KernelVersion
	case custom && !ok:
		return fmt.Sprintf("the run's outer optimizer is %.40q, version %.10s, which this program does not have: use "+
			"the program of the run's other peers, or register it (outeropt.Register)", name, number)
	case v != kernelOf(name):
		return fmt.Sprintf("the run's outer optimizer is %.40q, version %.10s, and this program has version %d: use "+
			"the program of the run's other peers", name, number, c.Version)
	}
	return ""
}

// integer checks a number, which is spelt as text where it may be 0, since that differs from not
// given.
func integer(low, high uint64) func(string) string {
	return func(v string) string {
		n, err := strconv.ParseUint(v, 10, 64)
		if err == nil && n >= low && n <= high && strconv.FormatUint(n, 10) == v {
			return ""
		}
		return fmt.Sprintf("allowed: %d to %d", low, high)
	}
}

// samplesText checks audit_samples.
func samplesText(v string) string {
	if v == AuditAll || integer(0, maxSamples)(v) == "" {
		return ""
	}
	return fmt.Sprintf("allowed: 0 to %d, or %s", maxSamples, AuditAll)
}

func decimal(low, high float64) func(string) string {
	return func(v string) string {
		n, err := strconv.ParseFloat(v, 64)
		if err == nil && n >= low && n <= high && strings.Trim(v, "0123456789.") == "" && len(v) <= 32 {
			return ""
		}
		return fmt.Sprintf("allowed: a decimal number from %g to %g", low, high)
	}
}

// wholeSeconds is a duration of whole seconds within bounds.
func wholeSeconds(low, high time.Duration) func(string) string {
	return func(v string) string {
		if d, err := time.ParseDuration(v); err == nil && d >= low && d <= high && d%time.Second == 0 {
			return ""
		}
		return fmt.Sprintf("allowed: whole seconds from %s to %s", brief(low), brief(high))
	}
}

const maxRunName = 128

func checkName(v string) string {
	if len(v) > maxRunName || !utf8.ValidString(v) ||
		// as in a ticket (internal/ticket), or nobody could be invited
		strings.ContainsFunc(v, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }) {
		return fmt.Sprintf("allowed: up to %d bytes of UTF-8 without spaces, control characters, or others that are "+
			"not seen", maxRunName)
	}
	return ""
}

func checkInit(v string) string {
	var r slot.Root
	if hex, ok := strings.CutPrefix(v, "root:"); v == "founder" || ok && r.UnmarshalText([]byte(hex)) == nil {
		return ""
	}
	return "allowed: founder, or root: and 64 hex digits"
}

func frameSize(v string) string {
	if n, err := strconv.ParseUint(v, 10, 64); err == nil && n >= MinFrame && n <= maxFrame && n&(n-1) == 0 {
		return ""
	}
	return fmt.Sprintf("allowed: powers of two from %d to %d elements", MinFrame, maxFrame)
}
