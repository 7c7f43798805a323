package nodetest

import (
	"cmp"
	"hash/fnv"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
)

// Scenario is the swarm of a test of what holds in several modes and with either trust.
type Scenario struct {
	Slots  uint64 // of the run
	Peers  int    // that are not started
	Start  uint64 // members that the first slot waits for; all peers if 0
	Modes  string // their names; all if empty
	Trusts string // the same
	Pace   time.Duration
	Change func(*p2pdiloco.Spec)
}

// Play runs a scenario: at night in each of its modes with each of its trusts, by day in one of
// these, which a hash of the test's name draws and the subtest's name tells. It ends with
// [Swarm.Sound].
func Play(t *testing.T, c Scenario, f func(s *Swarm)) {
	modes := strings.Fields(cmp.Or(c.Modes, Modes))
	trusts := strings.Fields(cmp.Or(c.Trusts, "crash byzantine"))
	h := fnv.New32a()
	_, _ = h.Write([]byte(t.Name()))
	drawn := int(h.Sum32() % uint32(len(modes)*len(trusts)))
	for i := range len(modes) * len(trusts) {
		if i != drawn && !testutil.Nightly() {
			continue
		}
		spec := c.spec(modes[i/len(trusts)], trusts[i%len(trusts)])
		t.Run(spec.Mode+"/"+spec.Trust, func(t *testing.T) {
			Run(t, spec, c.Peers, func(s *Swarm) {
				s.Pace(cmp.Or(c.Pace, 10*time.Millisecond))
				f(s)
				s.Sound()
			})
		})
	}
}

// spec is of a run whose slots take as many inner steps in every mode.
func (c Scenario) spec(mode, trust string) p2pdiloco.Spec {
	spec := Spec(c.Slots, cmp.Or(c.Start, uint64(c.Peers)))
	spec.Mode, spec.Trust = mode, trust
	if mode == p2pdiloco.ModeStreaming {
		spec.Fragments, spec.FragmentAlpha = 2, "0.5"
		spec.Rounds, spec.InnerSteps = (c.Slots+1)/2, 2*spec.InnerSteps
	}
	if c.Change != nil {
		c.Change(&spec)
	}
	return spec
}

// Sound checks what holds after every scenario: equal states, and nobody was given one because its
// own differed; one outcome for every slot and none missing; and that nobody was dropped, or never
// counted, to whom nothing had happened.
func (s *Swarm) Sound() {
	s.T.Helper()
	synctest.Wait()
	s.Equal()
	s.oneOutcome()
	for _, p := range s.Peers {
		if p.Had("state.diverged") {
			s.T.Errorf("host %d has computed another state than was certified", p.Host)
		}
		if p.Troubled.Load() || p.Applied() == 0 {
			continue
		}
		if p.Applied() == s.Spec.LastSlot() && p.Trainer != nil && !s.ContributedAfter(p, 0) {
			s.T.Errorf("host %d saw the run's end and never contributed", p.Host)
		}
		for _, q := range s.Peers {
			for _, e := range q.Events("peer.left") {
				if e.Fields["about"] == s.ID(p) && e.Fields["detail"] != "left" && !q.Troubled.Load() {
					s.T.Errorf("host %d dropped host %d, to which nothing had happened: %v", q.Host, p.Host, e.Fields)
				}
			}
		}
	}
}

// oneOutcome checks that each slot up to the newest was committed, and with one outcome unless a
// branch was given up.
func (s *Swarm) oneOutcome() {
	s.T.Helper()
	outcomes, newest := make(map[uint64]p2pdiloco.Root), uint64(0)
	forked := slices.ContainsFunc(s.Peers, func(p *Peer) bool { return p.Had("run.switched") || p.Had("run.forked") })
	for _, p := range s.Peers {
		newest = max(newest, p.Applied())
		for _, e := range p.Events("slot.committed") {
			at, root := e.Fields["slot"].(uint64), e.Fields["outcome_root"].(p2pdiloco.Root)
			if other, known := outcomes[at]; known && other != root && !forked {
				s.T.Errorf("host %d: slot %d was committed with two outcomes", p.Host, at)
			}
			outcomes[at] = root
		}
	}
	for at := uint64(1); at <= newest; at++ {
		if _, known := outcomes[at]; !known {
			s.T.Errorf("slot %d of %d was lost", at, newest)
		}
	}
}
