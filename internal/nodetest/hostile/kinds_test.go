package hostile

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/allreduce/figures"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
	lab "github.com/p2pdiloco/p2pdiloco/internal/lab/hostile"
	"github.com/p2pdiloco/p2pdiloco/internal/node/edge"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
)

// byDay are the kinds of hostile peers that are tried by day; at night all are. Owners that lie and
// members that hide have tests of their own.
const byDay = "false-norms bad-auditor flip strangers-scale"

const calmSlots = 4 // undisturbed, before the attack begins

// TestKinds plays hostile peers of each kind against honest ones, which must say and do what the
// table of kinds expects. Each is played in one mode, which its name and the seed of tests choose.
func TestKinds(t *testing.T) {
	for _, k := range lab.Kinds() {
		t.Run(k.Name, func(t *testing.T) {
			if !testutil.Nightly() && !slices.Contains(strings.Fields(byDay), k.Name) {
				t.Skip("a test for the night")
			}
			mode := strings.Fields(nodetest.Modes)[testutil.Random(t).IntN(5)]
			t.Logf("mode %s", mode)
			play(t, k, 3, mode, testutil.Choose[uint64](12, 12, 200))
		})
	}
}

// Two of seven lie as owners, and pass everything without a look: they cover for each other.
func TestOwnersThatLieWithAccomplices(t *testing.T) {
	k, _ := lab.Find("owner-1")
	k.Peers = 2
	play(t, k, 5, p2pdiloco.ModeSync, 6, func(h *edge.Hooks) { h.Passes = func(uint64) bool { return true } })
}

// play plays one kind for so many slots of attack, against so many honest peers. Beside what their
// kind does, hooks of hostile peers may be changed.
func play(t *testing.T, k lab.Kind, honest int, mode string, slots uint64, change ...func(*edge.Hooks)) {
	foes := max(k.Peers, 1)
	if k.Late {
		honest++ // as many have a vote; of few, one is a newcomer as the hostile ones are
	}
	first := honest + foes
	switch {
	case k.Few:
		first = honest - 1
	case k.Late:
		first = honest
	}
	spec := nodetest.Spec(calmSlots+slots, uint64(first))
	// the run is far from its end: there honest peers pull in opposite directions, too
	spec.Mode, spec.InnerSteps, spec.OuterLR, spec.Momentum = mode, 4, testutil.Choose("0.1", "0.1", "0.01"), "0"
	if mode == p2pdiloco.ModeStreaming {
		spec.Rounds, spec.Fragments = spec.Rounds/2, 2
	}
	nodetest.Run(t, spec, honest+foes, func(s *nodetest.Swarm) {
		ctx, cancel := context.WithCancel(s.T.Context())
		defer cancel()
		story := lab.Story{
			Kind: k, Honest: make([]lab.Log, honest), Share: int(spec.Settled().NewcomerShare), Folder: t.TempDir(),
		}
		for i, p := range s.Peers {
			p.Trainer = &layered{nodetest.Bowl{Target: 100 + float32(p.Host), Pace: 40 * time.Millisecond}}
			if i >= honest {
				turn(ctx, p, k, story.Folder, change...)
				story.Foes = append(story.Foes, s.ID(p).String())
				continue
			}
			story.Honest[i].ID = s.ID(p).String()
			p.OnEvent = func(e p2pdiloco.Event) { hear(t, &story.Honest[i], e) }
		}
		good := s.Peers[:honest]
		s.Start(s.Peers[:first]...)
		s.Reach(calmSlots, s.Peers[:first]...)
		story.From = good[0].Applied()
		if err := lab.Begin(story.Folder); err != nil {
			t.Fatal(err)
		}
		s.Start(s.Peers[first:]...)
		s.Finish(time.Hour, good...)
		t.Logf("said of it: %q", story.Said())
		for _, c := range story.Judge() {
			if t.Logf("%s: %s", c.Name, c.Fine); len(c.Faults) > 0 {
				t.Errorf("%s: %s", c.Name, strings.Join(c.Faults, "; "))
			}
		}
		if k.Within > 0 && !k.Late {
			checkFigures(t, good[0])
		}
		if doubts := s.Peers[honest].Had("trainer.alarm"); k.Name == "flip" && !doubts || good[0].Had("trainer.alarm") {
			t.Errorf("the hostile peer doubts itself: %v; or an honest one does", doubts)
		}
	})
}

// turn makes a peer hostile.
func turn(ctx context.Context, p *nodetest.Peer, k lab.Kind, folder string, change ...func(*edge.Hooks)) {
	p.Hooks = func(h *edge.Hooks) {
		for _, change := range change {
			change(h)
		}
		lab.Peer{Kind: k, Folder: folder}.Turn(ctx, h)
	}
}

// hear takes what a peer tells, as it would be in a file of events.
func hear(t *testing.T, to *lab.Log, e p2pdiloco.Event) {
	b, err := json.Marshal(e)
	if err != nil {
		t.Error(err)
	}
	l, err := eventlog.Parse(b)
	if err != nil {
		t.Error(err)
	}
	to.Lines = append(to.Lines, l)
}

// checkFigures says whether a peer has told the figures of all contributors of each slot.
func checkFigures(t *testing.T, p *nodetest.Peer) {
	t.Helper()
	told := map[uint64]int{}
	for _, e := range p.Events("slot.figures") {
		told[e.Fields["slot"].(uint64)] = len(e.Fields["contributors"].([]figures.Figures))
	}
	for _, e := range p.Events("slot.stats") {
		if n := e.Fields["slot"].(uint64); n > calmSlots && told[n] != e.Fields["contributors"] {
			t.Errorf("the figures of %d contributors of %v to slot %d are told", told[n], e.Fields["contributors"], n)
		}
	}
}

// layered is a bowl whose model has layers, with a frame of each for every peer of five.
type layered struct{ nodetest.Bowl }

func (*layered) Layout() p2pdiloco.Layout {
	return p2pdiloco.Layout{
		{Name: "layers.0.w", Shape: []uint64{5 * bowlFrame}}, {Name: "layers.1.w", Shape: []uint64{5 * bowlFrame}},
	}
}
