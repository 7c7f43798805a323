package eventlog

import (
	"io"
	"regexp"
	"strings"
	"time"
)

const (
	seldomEvery = 10 * time.Second
	seldomMost  = 1024 // lines that are remembered
)

type seldom struct {
	w     io.Writer
	wrote map[string]time.Time
}

// Seldom is w for a text handler of slog, which writes one line at a time: it writes none twice
// within 10 s. Warnings and errors count as one line where only numbers and hashes differ: what
// fails in each slot, or with each temporary file, is said once.
func Seldom(w io.Writer) io.Writer { return &seldom{w, map[string]time.Time{}} }

var varying = regexp.MustCompile(`[0-9a-f]*[0-9][0-9a-f]*`)

func (s *seldom) Write(b []byte) (int, error) {
	_, line, _ := strings.Cut(string(b), " ") // behind the time
	if strings.HasPrefix(line, "level=WARN") || strings.HasPrefix(line, "level=ERROR") {
		line = varying.ReplaceAllString(line, "#")
	}
	if at, wrote := s.wrote[line]; wrote && time.Since(at) < seldomEvery {
		return len(b), nil
	}
	if len(s.wrote) == seldomMost {
		clear(s.wrote)
	}
	s.wrote[line] = time.Now()
	return s.w.Write(b)
}
