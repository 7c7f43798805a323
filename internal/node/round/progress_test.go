package round

import (
	"testing"
)

// Progress before the first anchor is told to nobody.
func TestProgressBeforeTheFirstAnchor(t *testing.T) {
	l := &Loop{rate: new(stepRate)}
	l.Progress(5)
	if l.reported.Load() != nil {
		t.Error("progress before the first anchor is told to others")
	}
}
