package admission

import (
	"reflect"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

func TestMotionsFile(t *testing.T) {
	about, err := slot.ParsePeerID("12D3KooWEqnTdgqHnkkwarSrJjeMP2ZJiADWLYADaNvUb6SQNyPF")
	if err != nil {
		t.Fatal(err)
	}
	want := []slot.Motion{
		{Action: slot.Remove, Peer: about, Turn: 2},
		{Action: slot.Rotate, Turn: 1},
		{Action: slot.Readmit, Peer: about},
	}
	if got, err := parseMotions(string(formatMotions(want))); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v", got, err)
	}
	for _, bad := range []string{
		"remove\n", "burn - 1\n", "remove books 1\n", "remove " + about.String() + " x\n",
		strings.Repeat("rotate - 1\n", slot.MaxDecisions+1),
	} {
		if _, err := parseMotions(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}
