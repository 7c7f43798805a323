package membership

import (
	"regexp"
	"slices"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// play has one thing after the other happen, each the first that the explorer would call so and
// that changes something.
func (x *explorer) play(t *testing.T, w *world, script ...string) *world {
	t.Helper()
	for _, line := range script {
		is, next := regexp.MustCompile("^"+line), (*world)(nil)
		x.options(w, func(p int, in input, by func() string) {
			if next == nil && is.MatchString(by()) {
				next = x.follow(w, p, in, by)
			}
		})
		if next == nil {
			x.options(w, func(_ int, _ input, by func() string) { t.Log(by()) })
			t.Fatalf("it may not happen that %s", line)
		}
		w = next
	}
	return w
}

// haveUnchecked takes an audit for passed before it is answered.
func haveUnchecked(_ *explorer, m *Machine, d *wire.Draft) {
	if !m.audits.needed(*d) {
		return
	}
	if m.open.audits == nil {
		m.open.audits = map[slot.Root]*audit{}
	}
	m.open.audits[d.Hash] = &audit{draft: *d, passed: true}
}

// stubborn leads without hearing who is shown nothing.
func stubborn(_ *explorer, _ *Machine, msg wire.Message) wire.Message {
	if lost, ok := msg.Body.(wire.Lost); ok && lost.Reason == wire.LostSamples {
		msg.Body = wire.Beat{Ref: lost.Ref}
	}
	return msg
}

// refusesUnchecked refuses a record that comes with a QC until the own audit of it has passed.
func refusesUnchecked(_ *explorer, m *Machine, msg wire.Message) wire.Message {
	if d, ok := msg.Body.(wire.Draft); ok && d.Record.Kind == slot.Step && d.Grounds.QC != nil {
		if a := m.open.audits[d.Hash]; a == nil || !a.passed {
			msg.Body = wire.Beat{Ref: d.Ref}
		}
	}
	return msg
}

// gullible has all take any signature of a SEGMENT for good.
func (x *explorer) gullible(w *world) {
	segment := slot.SignedBytes(slot.TypeSegment, x.rules.Run, "", 0, nil)[:20]
	for _, id := range w.peers {
		if m := x.locals[id].m; m != nil {
			verify := m.cfg.Verify
			m.cfg.Verify = func(by slot.PeerID, msg, sig []byte) bool {
				return slices.Equal(msg[:len(segment)], segment) || verify(by, msg, sig)
			}
		}
	}
}
