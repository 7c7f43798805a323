package nodetest

import (
	"slices"
	"strings"
	"sync"
)

// Lines is a log that a test reads.
type Lines struct {
	Mu sync.Mutex
	B  strings.Builder
}

func (l *Lines) Write(b []byte) (int, error) {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	return l.B.Write(b)
}

func (l *Lines) String() string {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	return l.B.String()
}

// Has says whether a line has all these words.
func (l *Lines) Has(all ...string) bool {
	for line := range strings.SplitSeq(l.String(), "\n") {
		if !slices.ContainsFunc(all, func(s string) bool { return !strings.Contains(line, s) }) {
			return true
		}
	}
	return false
}
