//go:build unix

package attach

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/bridge/attach/attachtest"
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// journal is the model of a rank whose speed changes all the time. It writes down after how many
// inner steps each request came.
type journal struct {
	attachtest.Toy
	random *rand.Rand
	steps  int
	lines  []string
}

func (j *journal) note(what string) {
	j.lines = append(j.lines, fmt.Sprintf("%s after %d steps", what, j.steps))
}

// Train does some steps of a TRAIN, from one look to the next.
func (j *journal) Train(ctx context.Context, task trainer.Task) (trainer.Stats, error) {
	j.Pace = time.Duration(j.random.IntN(1500)) * time.Microsecond
	stats, err := j.Toy.Train(ctx, task)
	j.steps += stats.Steps
	return stats, err
}

func (j *journal) Load(ctx context.Context, start []float32) error {
	j.note("load")
	return j.Toy.Load(ctx, start)
}

func (j *journal) Save(_ context.Context, path string) error {
	j.note("save")
	return os.WriteFile(path, nil, 0o600)
}

func (*journal) Restore(context.Context, string) error { return nil }

// journals are the ranks of a box that divide every tensor between them.
func journals(world uint64) (all []*attachtest.Rank) {
	for rank := range world {
		j := &journal{Toy: attachtest.Toy{Target: 1}, random: rand.New(rand.NewPCG(world, rank))}
		all = append(all, &attachtest.Rank{Trainer: j, Pieces: flat(j.Layout(), rank, world)})
	}
	return all
}

// wantOneJournal checks that all ranks of a box were asked the same after the same steps.
func wantOneJournal(t *testing.T, all []*attachtest.Rank) []string {
	t.Helper()
	first := all[0].Trainer.(*journal).lines
	for rank, r := range all {
		if lines := r.Trainer.(*journal).lines; !slices.Equal(lines, first) {
			t.Errorf("rank %d of %d:\n%s\nrank 0:\n%s", rank, len(all), strings.Join(lines, "\n"),
				strings.Join(first, "\n"))
		}
	}
	return first
}

// TestBoxesAndAPeer: boxes with one, two and eight ranks, each at a speed of its own, and a peer
// with a trainer in its own process train in one run. The ranks of a box load each anchor after the
// same inner steps, and all end with one model.
func TestBoxesAndAPeer(t *testing.T) {
	t.Parallel()
	for _, mode := range testutil.Choose([]string{p2pdiloco.ModeStreaming}, []string{p2pdiloco.ModeStreaming},
		strings.Fields("streaming sync delayed eager async"),
	) {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			ctx := bounded(t)
			s := runSpec(t, 4, 4)
			s.Mode, s.Momentum, s.Name = mode, "0", fmt.Sprintf("boxes-%s-%d", mode, os.Getpid())
			if mode == p2pdiloco.ModeStreaming {
				s.Fragments, s.FragmentAlpha, s.FragmentDelay = 2, "0.5", "1"
			}
			other := plain(ctx, t, s, &attachtest.Toy{Target: 4, Pace: 3 * time.Millisecond})
			peers := []*machine{other}
			var all [][]*attachtest.Rank
			var ended []chan error
			for i, world := range []uint64{1, 2, 8} {
				m := newMachine(t, Config{})
				all = append(all, journals(world))
				ended = append(ended, ranks(ctx, m, "one", all[i]...)...)
				m.join(ctx, s, other.node.Addrs()...)
				peers = append(peers, m)
			}
			wantEnded(t, ended, peers...)
			sameRoot(t, other.node.Spec().LastSlot(), peers...)
			anchor := make([]float32, 253)
			if _, err := other.node.Anchor(ctx, anchor); !errors.Is(err, p2pdiloco.ErrRunEnded) {
				t.Fatal(err)
			}
			for i, ranks := range all {
				if lines := wantOneJournal(t, ranks); len(lines) < 4 {
					t.Errorf("only %q", lines)
				}
				if live := ranks[0].Trainer.(*journal).Live; !slices.Equal(live, anchor) {
					t.Errorf("rank 0 of %d ends with another model than the peer", len(ranks))
				}
				shown, want := peers[1+i].node.Status().Process, 2*Size(253)
				if shown.SharedBytes != want || shown.SharedVectors != float64(want)/(4*253) {
					t.Errorf("the status shows %+v", shown)
				}
			}
			if none := other.node.Status().Process; none.SharedBytes != 0 || none.SharedVectors != 0 {
				t.Errorf("the status of the peer shows %+v", none)
			}
		})
	}
}

// TestRanksPauseSaveAndStopAtOneStep: the only other member dies in the midst of the inner steps,
// so that the run pauses, and comes back; later the peer is stopped in the midst of its steps, and
// its ranks save. All of them do each of it after the same steps, although their speeds differ.
func TestRanksPauseSaveAndStopAtOneStep(t *testing.T) {
	t.Parallel()
	for _, mode := range testutil.Choose([]string{p2pdiloco.ModeSync}, []string{p2pdiloco.ModeSync},
		[]string{p2pdiloco.ModeSync, p2pdiloco.ModeEager, p2pdiloco.ModeStreaming}) {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			pauseSaveAndStop(bounded(t), t, mode)
		})
	}
}

func pauseSaveAndStop(ctx context.Context, t *testing.T, mode string) {
	s := runSpec(t, 1000, 2)
	s.Mode, s.Momentum, s.InnerSteps = mode, "0", 100
	s.Name, s.Trust = fmt.Sprintf("pause-save-stop-%s-%d", mode, os.Getpid()), p2pdiloco.TrustCrash
	cfg := p2pdiloco.Config{
		Spec: s, Preset: p2pdiloco.PresetLAN,
		Listen: []string{"/ip4/127.0.0.1/tcp/0"}, DataDir: t.TempDir(), Found: true,
	}
	start := func() *p2pdiloco.Node {
		cfg.Trainer = &attachtest.Toy{Target: 4, Pace: time.Millisecond} // Run may outlast Close
		node, err := p2pdiloco.Join(ctx, cfg)
		must(t, err)
		t.Cleanup(func() { _ = node.Close() })
		go func() { _ = node.Run(ctx) }()
		return node
	}
	founder := start()
	for founder.Status().Height == 0 { // else either of the two founds the run
		time.Sleep(time.Millisecond)
	}
	m := newMachine(t, Config{DataDir: t.TempDir()})
	all := journals(8)
	var steps atomic.Uint64 // that rank 0 has done of its TRAIN
	all[0].OnStep = steps.Store
	amidst := func(p2pdiloco.Status) bool { done := steps.Load(); return 20 < done && done < 40 }
	ended := ranks(ctx, m, "one", all...)
	running, stop := context.WithCancel(ctx)
	defer stop()
	m.join(running, s, founder.Addrs()...)
	m.until("three slots", func(s p2pdiloco.Status) bool { return s.Slot >= 3 })
	m.until("inner steps", amidst)
	must(t, founder.Close())
	m.until("a pause", func(s p2pdiloco.Status) bool { return s.Phase == p2pdiloco.PhasePaused })
	at := m.node.Status().Slot
	cfg.Found, cfg.Bootstrap = false, m.node.Addrs()
	start()
	m.until("slots after the pause", func(s p2pdiloco.Status) bool { return s.Slot >= at+3 })
	m.until("inner steps", amidst)
	stop()
	<-m.ended
	must(t, m.server.Close())
	for _, c := range ended {
		<-c
	}
	lines := wantOneJournal(t, all)
	if last := lines[len(lines)-1]; !strings.HasPrefix(last, "save") {
		t.Errorf("the last of %d lines is %q", len(lines), last)
	}
	saved, err := filepath.Glob(filepath.Join(m.server.cfg.DataDir, stateDir, "*", "rank-*"))
	if err != nil || len(saved) < 8 {
		t.Errorf("%q, %v", saved, err)
	}
}

// until waits for a state of the node.
func (m *machine) until(what string, reached func(p2pdiloco.Status) bool) {
	m.t.Helper()
	within(m.t, what, func() bool { return reached(m.node.Status()) })
}
