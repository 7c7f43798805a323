package view

import "testing"

// Lines come from a peer's API, which any program of this user may serve.
func FuzzParseEvent(f *testing.F) {
	f.Add([]byte(`{"time":"2026-01-02T03:04:05Z","event":"peer.left","peer":"x","about":"q","slot":3}`))
	f.Add([]byte(`{"time":3,"event":[]}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		if e, err := parseEvent(line); err == nil && e.Name == "" {
			t.Errorf("%q is %+v", line, e)
		}
	})
}
