//go:build unix

package attach

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/bridge/attach/attachtest"
	"github.com/p2pdiloco/p2pdiloco/bridge/attach/wire"
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// machine is a box in a test: a node, and the socket that its trainer attaches at.
type machine struct {
	t      *testing.T
	server *Server
	node   *p2pdiloco.Node
	ended  chan error
	mu     struct {
		sync.Mutex
		notices []string
	}
}

// must fails where something did.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newMachine listens.
func newMachine(t *testing.T, cfg Config) *machine {
	t.Helper()
	m := &machine{t: t, ended: make(chan error, 1)}
	if cfg.DataDir == "" {
		cfg.DataDir = t.TempDir()
	}
	cfg.Notice = m.notice
	if os.Getenv("P2PDILOCO_TEST_LOG") != "" {
		cfg.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	if cfg.Looks == 0 {
		cfg.Looks = 20 * time.Millisecond
	}
	server, err := Listen(cfg)
	must(t, err)
	m.server = server
	t.Cleanup(func() {
		if m.node != nil {
			if err := m.node.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

func (m *machine) notice(text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.notices = append(m.mu.notices, text)
}

func (m *machine) said() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.mu.notices)
}

// join waits for the trainer, joins the run and trains, as cmd does.
func (m *machine) join(ctx context.Context, spec p2pdiloco.Spec, bootstrap ...string) {
	m.t.Helper()
	tr, err := m.server.Trainer(ctx)
	must(m.t, err)
	m.node = join(ctx, m.t, m.server.cfg.DataDir, spec, &watched{tr, m.t}, bootstrap)
	tr.Joined(wire.Info{RunID: m.node.RunID().String(), Mode: m.node.Spec().Mode})
	go func() {
		err := m.node.Run(ctx)
		if err == nil {
			m.server.End(wire.CodeEnded, "the run has ended")
		}
		m.ended <- err
	}()
}

// watched is a trainer whose node works in the vectors that its ranks have: it keeps no copies.
type watched struct {
	*Trainer
	t *testing.T
}

func (w *watched) LoadRange(ctx context.Context, begin int, src []float32) error {
	if !same(src, w.start[begin:begin+len(src)]) {
		w.t.Errorf("%d elements from %d on are loaded from a copy of what the ranks have", len(src), begin)
	}
	return w.Trainer.LoadRange(ctx, begin, src)
}

func (w *watched) Load(ctx context.Context, start []float32) error { return w.LoadRange(ctx, 0, start) }

func join(ctx context.Context, t *testing.T, dir string, spec p2pdiloco.Spec, tr trainer.Trainer,
	bootstrap []string,
) *p2pdiloco.Node {
	t.Helper()
	cfg := p2pdiloco.Config{
		Spec: spec, Trainer: tr, Preset: p2pdiloco.PresetLAN, Listen: []string{"/ip4/127.0.0.1/tcp/0"},
		Bootstrap: bootstrap, DataDir: dir, Found: len(bootstrap) == 0,
	}
	if os.Getenv("P2PDILOCO_TEST_LOG") != "" {
		cfg.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	node, err := p2pdiloco.Join(ctx, cfg)
	must(t, err)
	return node
}

// plain is a peer that trains in its own process.
func plain(ctx context.Context, t *testing.T, spec p2pdiloco.Spec, tr trainer.Trainer, bootstrap ...string) *machine {
	t.Helper()
	m := &machine{t: t, ended: make(chan error, 1)}
	m.node = join(ctx, t, t.TempDir(), spec, tr, bootstrap)
	t.Cleanup(func() {
		if err := m.node.Close(); err != nil {
			t.Error(err)
		}
	})
	go func() { m.ended <- m.node.Run(ctx) }()
	return m
}

// runSpec is of a run that no other process has.
func runSpec(t *testing.T, rounds uint64, peers int) p2pdiloco.Spec {
	return p2pdiloco.Spec{
		Name: fmt.Sprintf("%s-%d", t.Name(), os.Getpid()), Rounds: rounds, InnerSteps: 10, StartPeers: uint64(peers),
		Aggregator: "mean", Outer: "nesterov", OuterLR: "0.7", Momentum: "0.6",
	}
}

func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// ranks start the ranks of a set.
func ranks(ctx context.Context, m *machine, set string, all ...*attachtest.Rank) (ended []chan error) {
	for i, r := range all {
		r.Number, r.World, r.Set = uint64(i), uint64(len(all)), set
		done := make(chan error, 1)
		ended = append(ended, done)
		go func() { done <- r.Run(ctx, m.server.Path()) }()
	}
	return ended
}

// wantEnded waits for the run's end, at peers, and checks that ranks were told of it.
func wantEnded(t *testing.T, ended []chan error, peers ...*machine) {
	t.Helper()
	for _, m := range peers {
		must(t, <-m.ended)
	}
	for _, c := range ended {
		wantCode(t, <-c, wire.CodeEnded, "")
	}
}

// sameRoot checks that two peers have ended with the same model.
func sameRoot(t *testing.T, slots uint64, all ...*machine) {
	t.Helper()
	first := all[0].node.Status()
	for _, m := range all {
		if s := m.node.Status(); s.Slot != slots || s.StateRoot != first.StateRoot {
			t.Errorf("slot %d with %s, the first peer %d with %s", s.Slot, s.StateRoot, first.Slot, first.StateRoot)
		}
	}
}

// flat are the pieces of one of some ranks that divide every tensor by its elements, unevenly.
func flat(layout trainer.Layout, rank, world uint64) (all []wire.Piece) {
	for i, t := range layout {
		n := t.Elements()
		begin, end := n*rank/world, n*(rank+1)/world
		all = append(all, wire.Piece{
			Tensor: uint64(i), Flat: true, Offsets: []uint64{begin}, Extents: []uint64{end - begin},
		})
	}
	return all
}

// rows are the pieces of one of some ranks that divide every tensor along its first dimension, as
// torch.chunk does.
func rows(layout trainer.Layout, rank, world uint64) (all []wire.Piece) {
	for i, t := range layout {
		chunk := (t.Shape[0] + world - 1) / world
		begin, end := min(t.Shape[0], rank*chunk), min(t.Shape[0], (rank+1)*chunk)
		p := wire.Piece{Tensor: uint64(i), Offsets: make([]uint64, len(t.Shape)), Extents: slices.Clone(t.Shape)}
		p.Offsets[0], p.Extents[0] = begin, end-begin
		all = append(all, p)
	}
	return all
}

// TestShards: however the model is divided between how many ranks, it ends as with one trainer in
// the node's process.
func TestShards(t *testing.T) {
	t.Parallel()
	cases := []struct {
		world  uint64 // 0: it is in the node's process
		pieces func(l trainer.Layout, rank, world uint64) []wire.Piece
	}{
		{0, nil}, {2, nil}, {4, flat}, {3, rows}, {2, flat}, {5, rows},
	}[:testutil.Choose(3, 4, 6)]
	last := make([]p2pdiloco.Status, len(cases))
	t.Run("runs", func(t *testing.T) {
		for i, c := range cases {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				s, ctx := runSpec(t, 3, 1), bounded(t)
				s.Name = fmt.Sprintf("shards-%d-%d", i, os.Getpid())
				if c.world == 0 {
					m := plain(ctx, t, s, &attachtest.Toy{Target: 2})
					wantEnded(t, nil, m)
					last[i] = m.node.Status()
					return
				}
				m := newMachine(t, Config{})
				var all []*attachtest.Rank
				for rank := range c.world {
					r := &attachtest.Rank{Trainer: &attachtest.Toy{Target: 2}}
					if c.pieces != nil {
						r.Pieces = c.pieces(r.Trainer.Layout(), rank, c.world)
					}
					all = append(all, r)
				}
				ended := ranks(ctx, m, "one", all...)
				m.join(ctx, s)
				wantEnded(t, ended, m)
				last[i] = m.node.Status()
			})
		}
	})
	for i, s := range last {
		if s.Slot != 3 || s.StateRoot != last[0].StateRoot {
			t.Errorf("with %d ranks it ends at slot %d with %s, without any with %s", cases[i].world, s.Slot,
				s.StateRoot, last[0].StateRoot)
		}
	}
}

// TestARankIsLost closes a rank's socket in the midst of its steps: the other is sent away, the
// peer stays a member, and the next set goes on from the newest anchor.
func TestARankIsLost(t *testing.T) {
	t.Parallel()
	ctx := bounded(t)
	m := newMachine(t, Config{})
	victim := &attachtest.Rank{Trainer: &attachtest.Toy{Target: 1, Pace: time.Millisecond}}
	steps := 0
	victim.OnStep = func(uint64) {
		if steps++; steps == 25 { // in the third round
			victim.Kill()
		}
	}
	survivor := &attachtest.Rank{Trainer: &attachtest.Toy{Target: 1, Pace: time.Millisecond}}
	first := ranks(ctx, m, "first", survivor, victim)
	m.join(ctx, runSpec(t, 6, 2))
	other := plain(ctx, t, runSpec(t, 6, 2), &attachtest.Toy{Target: 4, Pace: time.Millisecond}, m.node.Addrs()...)
	wantCode(t, <-first[0], wire.CodeLost, "")
	<-first[1]
	ended := ranks(ctx, m, "second", &attachtest.Rank{Trainer: &attachtest.Toy{Target: 1}})
	wantEnded(t, ended, m, other)
	sameRoot(t, 6, m, other)
}

// TestNotFinite: a set whose pseudo-gradient has a NaN is sent away, and nothing of it is offered.
func TestNotFinite(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{p2pdiloco.ModeSync, p2pdiloco.ModeStreaming} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			s, ctx := runSpec(t, 4, 1), bounded(t)
			s.Name, s.Mode = fmt.Sprintf("not-finite-%s-%d", mode, os.Getpid()), mode
			if mode == p2pdiloco.ModeStreaming {
				s.Fragments, s.FragmentAlpha = 2, "0.5" // else what lands may take the NaN away
			}
			m := newMachine(t, Config{})
			bad := &attachtest.Toy{Target: 1, Spoil: func(task trainer.Task, live []float32) {
				if task.Slot >= 2 {
					live[250] = float32(math.NaN())
				}
			}}
			first := ranks(ctx, m, "first", &attachtest.Rank{Trainer: bad})
			m.join(ctx, s)
			wantCode(t, <-first[0], wire.CodeNotFinite, `element 250 of 253 (tensor "b") is NaN`)
			next := &attachtest.Rank{Trainer: &attachtest.Toy{Target: 1}}
			ended := ranks(ctx, m, "first", next)
			wantEnded(t, ended, m)
			if first := next.Loads[0]; first.Begin != 0 || first.End != 253 {
				t.Errorf("the next set began with elements %d to %d of the model", first.Begin, first.End)
			}
		})
	}
}
