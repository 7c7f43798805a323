package membership

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/testlevel"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// unchecked plants a fault without a change to the machine: one that lacks the rule of one HAVE in
// a ballot has forgotten the first when the liar shows a second draft.
func (l *liar) unchecked(m *Machine, msg wire.Message) wire.Message {
	if l == nil || !l.twice {
		return msg
	}
	b, ok := msg.Body.(wire.Draft)
	own := m.pledges.open.Have
	if ok && own != nil && own.Ballot == b.Ballot && own.Record.Hash() != b.Hash {
		m.pledges.open.Have, m.open.draft = nil, nil
	}
	return msg
}

// TestExploreLiar lets one of four electors lie, as the leader and as a voter, and finds no two
// records certified and no honest elector that contradicts itself.
func TestExploreLiar(t *testing.T) {
	for _, c := range []struct {
		name    string
		tries   uint32
		terms   uint32
		crashes int
	}{
		{name: "one ballot", tries: 1},
		{name: "two ballots", tries: 2},
		{name: "three ballots", tries: 3},
		{name: "a crash", tries: 2, crashes: 1},
		{name: "an honest leader next", tries: 1, terms: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			rules := labRules()
			rules.Byzantine = true
			x, w := newLiarsWorld(t, rules, c.tries)
			x.limit, x.terms, x.crashes = testlevel.Choose(1_000, 10_000, 300_000), c.terms, c.crashes
			begun := time.Now()
			complete := x.explore(w)
			t.Logf("%d worlds, %d peer states, %d messages, complete=%v, %v", x.worlds, len(x.locals), len(x.parcels),
				complete, time.Since(begun))
			if x.fault != "" {
				t.Fatalf("%s\n%s", x.fault, strings.Join(x.trace, "\n"))
			}
		})
	}
}

// TestExploreLiarFindsFaults takes one rule away from the honest machines and expects the liar to
// break what it protects.
func TestExploreLiarFindsFaults(t *testing.T) {
	forget := func(forgets slot.MessageType) func(wire.Entry) bool {
		return func(e wire.Entry) bool {
			switch e.(type) {
			case wire.EntryPromise:
				return forgets != slot.TypePromise
			case wire.EntryHave:
				return forgets != slot.TypeHave
			}
			return true
		}
	}
	for _, c := range []struct {
		name, want string
		tries      uint32
		crashes    int
		keep       func(wire.Entry) bool
		crash      bool // trust crash, and its quorum
		twice      bool // a second HAVE in a ballot is given
	}{
		{name: "promises in memory only (m1)", want: "I6", tries: 2, crashes: 1, keep: forget(slot.TypePromise)},
		{name: "HAVEs in memory only (m2)", want: "I6", tries: 1, crashes: 1, keep: forget(slot.TypeHave)},
		{name: "quorums of trust crash (m6)", want: "A1", tries: 1, crash: true},
		{name: "HAVE twice (m7)", want: "I6", tries: 1, twice: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			rules := labRules()
			rules.Byzantine = !c.crash
			x, w := newLiarsWorld(t, rules, c.tries)
			x.crashes, x.keep, x.liar.twice = c.crashes, c.keep, c.twice
			begun := time.Now()
			x.walk(w, rand.New(rand.NewPCG(1, 2)), 24, begun.Add(time.Minute))
			if !strings.HasPrefix(x.fault, c.want) {
				t.Fatalf("found %q after %d worlds, not %s", x.fault, x.worlds, c.want)
			}
			t.Logf("%s, after %d worlds, %v:\n%s", x.fault, x.worlds, time.Since(begun), strings.Join(x.trace, "\n"))
		})
	}
}
