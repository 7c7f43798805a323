package plugin

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// What a Fault may unwrap to. Others are what the library's own functions said, or what it says of itself that cannot be.
var (
	// ErrCrashed: the library ended its process.
	ErrCrashed = errors.New("the trainer ended its process")
	// ErrHung: no progress for Config.Timeout; the process was killed.
	ErrHung = errors.New("the trainer hung")
	// ErrNoHost is returned by Open of a program that can be no host: it was built without cgo, or for a system without fork and mmap.
	ErrNoHost = errors.New("this program cannot load trainer libraries")
)

// Fault is what a trainer library did wrong. It is one line.
type Fault struct {
	Library string // its path as it was given
	Doing   string // what it was asked for
	Problem string // what happened, and what to do
	Err     error  // nil, or what it unwraps to
}

func (f *Fault) Error() string { return fmt.Sprintf("%s: %s: %s", f.Library, f.Doing, f.Problem) }

// Unwrap is for errors.Is.
func (f *Fault) Unwrap() error { return f.Err }

// maxReason bounds what is shown of a library's own words, in bytes.
const maxReason = 600

// oneLine makes words that come from a library fit for an error: one line of UTF-8, without control characters, not endless.
func oneLine(s string) string {
	cut := len(s) > maxReason
	if cut {
		s = s[:maxReason]
		for i := 0; i < utf8.UTFMax && !utf8.ValidString(s[len(s)-1-i:]) && i < len(s)-1; i++ {
			if utf8.RuneStart(s[len(s)-1-i]) {
				s = s[:len(s)-1-i] // a letter that was cut in two
				break
			}
		}
	}
	clean := func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}
	s = strings.Join(strings.Fields(strings.Map(clean, strings.ToValidUTF8(s, "\uFFFD"))), " ")
	if cut {
		s += "…"
	}
	return s
}

// reason is what a library says of its failure.
func reason(payload []byte) string {
	if text := oneLine(string(payload)); text != "" {
		return text
	}
	return "it failed and gives no reason (last_error)"
}
