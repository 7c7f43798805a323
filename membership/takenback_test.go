package membership

import (
	"errors"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// An order that was taken back does not count in the draft of a leader that has kept it. One that
// its maker has signed again does, and so does the word of enough others whatever it does.
func TestAnOrderThatWasTakenBack(t *testing.T) {
	for name, c := range map[string]struct {
		later  slot.Action // what A orders next; 0: nothing
		enough bool        // D orders the same as A, B and C, and is not in the draft
		want   bool        // the draft is taken
	}{
		"it stands":         {want: true},
		"taken back":        {later: slot.Readmit},
		"signed again":      {later: slot.Remove, want: true},
		"enough without it": {later: slot.Readmit, enough: true, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			l := labOf(t, "ABCDE")
			m := l.peer("B").m
			d := signedBy(m, slot.Remove, "E", "ABC")
			hold := func(by string, action slot.Action, from uint64) {
				o := slot.Motion{Action: action, Peer: d.Peer, Turn: d.Turn, From: from}
				if err := m.motions.onMotion(labSigned(l.peer(by), wire.Motion{Motion: o}), o); err != nil {
					t.Fatal(err)
				}
			}
			height := m.chain.Height()
			hold("A", slot.Remove, height)
			if c.later != 0 {
				hold("A", c.later, height+1)
			}
			if c.enough {
				hold("D", slot.Remove, height)
			}
			body := draftOf(0, accessRecord(m, slot.Root{}, d), nil)
			err := m.participant.checkDraft(labID("A"), body)
			if (err == nil) != c.want || err != nil && !errors.Is(err, ErrStale) {
				t.Errorf("%v", err)
			}
		})
	}
}
