//go:build unix

package attach

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/bridge/attach/attachtest"
	"github.com/p2pdiloco/p2pdiloco/bridge/attach/box"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// die closes the sockets as the end of the node's process does: nobody is told anything.
func (m *machine) die() {
	m.server.loop.do(func() []box.Effect {
		for _, c := range m.server.loop.conns {
			_ = c.socket.Close()
		}
		return nil
	})
}

// outlives has two ranks train from a vector, and their node die when they have done so many steps
// of 40. It returns their models, and what they would tell the next node.
func outlives(t *testing.T, start []float32, steps int) (toys []*attachtest.Toy, held []attachtest.Held) {
	t.Helper()
	node := make(chan func(), 1)
	die := sync.OnceFunc(func() { (<-node)() })
	var there sync.WaitGroup
	there.Add(2)
	var all []*attachtest.Rank
	for range 2 {
		toy := &attachtest.Toy{Target: 1, Pace: time.Millisecond}
		toys = append(toys, toy)
		come := sync.OnceFunc(there.Done)
		all = append(all, &attachtest.Rank{Trainer: toy, OnStep: func(step uint64) {
			if int(step) == steps {
				come()
				there.Wait()
				die()
			}
		}})
	}
	// they ask after every step
	m, tr, ended := attached(t, Config{Looks: time.Microsecond}, all...)
	tr.KeepSteps(true)
	copy(tr.start, start)
	if err := tr.Load(t.Context(), tr.start); err != nil {
		t.Fatal(err)
	}
	node <- func() {
		for tr.loop.memory.start.Word(markedWord).Load() == 0 {
			time.Sleep(time.Millisecond)
		}
		m.die()
	}
	if _, err := tr.Train(t.Context(), trainer.Task{Slot: 1, Steps: 40, PartSteps: 40}); err == nil {
		t.Fatal("the node did not die")
	}
	for i, c := range ended {
		if err := <-c; err == nil || errors.As(err, new(*attachtest.Ended)) {
			t.Fatalf("the rank is told of it: %v", err)
		}
		held = append(held, all[i].Held)
	}
	return toys, held
}

// next is the node that comes back, with a vector, and the ranks that have outlived the last one.
func next(t *testing.T, toys []*attachtest.Toy, held []attachtest.Held) (*machine, *Trainer, []*attachtest.Rank) {
	t.Helper()
	var all []*attachtest.Rank
	for i, toy := range toys {
		all = append(all, &attachtest.Rank{Trainer: toy, Held: held[i]})
	}
	m, tr, _ := attached(t, Config{Looks: time.Microsecond}, all...)
	tr.KeepSteps(true)
	return m, tr, all
}

// vector is one that ranks train from.
func vector() []float32 {
	v := make([]float32, 253)
	for i := range v {
		v[i] = float32(i) / 7
	}
	return v
}

// begin loads, trains 40 steps and exports, as a round does, and returns how many steps the ranks
// did for that.
func begin(t *testing.T, tr *Trainer, start []float32) (stats trainer.Stats, done []int) {
	t.Helper()
	copy(tr.start, start)
	if err := tr.Load(t.Context(), tr.start); err != nil {
		t.Fatal(err)
	}
	task := trainer.Task{Slot: 1, Steps: 40, PartSteps: 40, Progress: func(n int) { done = append(done, n) }}
	stats, err := tr.Train(t.Context(), task)
	if err == nil {
		err = tr.ExportGradient(t.Context(), tr.start, tr.local, func(int, int) error { return nil })
	}
	if err != nil {
		t.Fatal(err)
	}
	return stats, done
}

// TestStepsOutliveTheNode: the node dies after some of the steps, or when all are done, and comes
// back with the same vector. The ranks keep what they have, and do what is left; the
// pseudo-gradient is, bit by bit, that of a node that did not die. They began anew before, and a
// slot that takes an hour was lost with each restart of the node.
func TestStepsOutliveTheNode(t *testing.T) {
	undisturbed := &attachtest.Rank{Trainer: &attachtest.Toy{Target: 1}}
	_, tr, _ := attached(t, Config{}, undisturbed)
	begin(t, tr, vector())
	want := slices.Clone(tr.local)
	for _, steps := range []int{17, 40} {
		t.Run(fmt.Sprint(steps), func(t *testing.T) {
			toys, held := outlives(t, vector(), steps)
			if held[0].Mark == "" || held[0].Steps != uint64(steps) || held[1] != held[0] {
				t.Fatalf("they hold %+v", held)
			}
			m, tr, all := next(t, toys, held)
			stats, done := begin(t, tr, vector())
			if all[0].Loads()[0].Keep != 1 || !slices.Equal(tr.local, want) {
				t.Errorf("%+v, and the pseudo-gradient differs: %t", all[0].Loads(), !slices.Equal(tr.local, want))
			}
			if stats.Steps != 40 || stats.Kept != steps || stats.Tokens != 80 || done[0] != steps ||
				done[len(done)-1] < steps {
				t.Errorf("%+v, reported %v", stats, done)
			}
			wantText(t, fmt.Errorf("%q", m.said()), fmt.Sprintf("it keeps the %d inner steps", steps))
			if begin(t, tr, vector()); all[0].Loads()[1].Keep != 0 || !slices.Equal(tr.local, want) {
				t.Error("the next load keeps what is there, too")
			}
		})
	}
}

// TestWhatRanksHoldIsVoid: with another vector than they had loaded, where one rank is a step
// ahead, where a contribution may count in a later slot, and where the whole vector is not what is
// loaded, the ranks load what the node has. Their parameters did not grow from that.
func TestWhatRanksHoldIsVoid(t *testing.T) {
	toys, held := outlives(t, vector(), 17)
	ahead := slices.Clone(held)
	ahead[1].Steps++
	other := vector()
	other[252] = math.Nextafter32(other[252], 0)
	for name, c := range map[string]struct {
		held  []attachtest.Held
		start []float32
		keeps bool
	}{
		"another vector": {held, other, true},
		"a step ahead":   {ahead, vector(), true},
		"stale counts":   {held, vector(), false},
	} {
		t.Run(name, func(t *testing.T) {
			_, tr, all := next(t, toys, c.held)
			tr.KeepSteps(c.keeps)
			stats, _ := begin(t, tr, c.start)
			if all[0].Loads()[0].Keep != 0 || stats.Steps != 40 || stats.Tokens != 80 {
				t.Errorf("%+v, %+v", all[0].Loads()[0], stats)
			}
			copy(tr.start, c.start)
			want := begins(t, c.start)
			if !slices.Equal(tr.local, want) {
				t.Error("the pseudo-gradient is of other parameters")
			}
		})
	}
	_, tr, all := next(t, toys, held)
	copy(tr.start, vector())
	if err := tr.LoadRange(t.Context(), 0, tr.start[:240]); err != nil {
		t.Fatal(err)
	}
	if all[0].Loads()[0].Keep != 0 {
		t.Error("a part was kept")
	}
}

// begins is the pseudo-gradient of 40 steps from a vector, with a node that does not die.
func begins(t *testing.T, start []float32) []float32 {
	t.Helper()
	_, tr, _ := attached(t, Config{}, &attachtest.Rank{Trainer: &attachtest.Toy{Target: 1}})
	begin(t, tr, start)
	return slices.Clone(tr.local)
}

// TestAHeldOutLossIsTheAnchors: ranks that have kept their steps do not hold the anchor, so what
// they would measure is not its loss.
func TestAHeldOutLossIsTheAnchors(t *testing.T) {
	toys, held := outlives(t, vector(), 17)
	_, tr, _ := next(t, toys, held)
	copy(tr.start, vector())
	if err := tr.Load(t.Context(), tr.start); err != nil {
		t.Fatal(err)
	}
	if loss, err := tr.Evaluate(t.Context()); !math.IsNaN(loss) || err != nil {
		t.Errorf("%v, %v", loss, err)
	}
}

// TestTwoNodesDie: the second one before it has told the ranks anything, and the third keeps the
// steps of the first.
func TestTwoNodesDie(t *testing.T) {
	toys, held := outlives(t, vector(), 17)
	m := newMachine(t, Config{})
	r := &attachtest.Rank{Trainer: toys[0], Held: held[0], World: 1, Set: "one"}
	if err := r.Attach(m.server.Path()); err != nil {
		t.Fatal(err)
	}
	m.die()
	if r.Close(); r.Held != held[0] {
		t.Errorf("%+v is left of %+v", r.Held, held[0])
	}
}

// TestANodeDiesAsItHasKeptSteps: before it could hash the vector again. The third one keeps the
// steps of the first, which were lost.
func TestANodeDiesAsItHasKeptSteps(t *testing.T) {
	toys, held := outlives(t, vector(), 17)
	var all []*attachtest.Rank
	for i, toy := range toys {
		all = append(all, &attachtest.Rank{Trainer: toy, Held: held[i]})
	}
	m, tr, ended := attached(t, Config{Looks: time.Microsecond}, all...)
	tr.KeepSteps(true)
	copy(tr.start, vector())
	if err := tr.Load(t.Context(), tr.start); err != nil {
		t.Fatal(err)
	}
	m.die()
	for i, c := range ended {
		<-c
		if all[i].Held != held[i] {
			t.Errorf("rank %d: %+v is left of %+v", i, all[i].Held, held[i])
		}
	}
	_, tr, all = next(t, toys, held)
	if stats, _ := begin(t, tr, vector()); stats.Kept != 17 || !slices.Equal(tr.local, begins(t, vector())) {
		t.Errorf("%+v", stats)
	}
	if all[0].Loads()[0].Keep != 1 {
		t.Error("the ranks began anew")
	}
}

// TestAVectorIsMarkedBesideTheSteps: a node that gives up waits for no hash, and what was not
// hashed to its end has no mark.
func TestAVectorIsMarkedBesideTheSteps(t *testing.T) {
	_, tr, _ := attached(t, Config{}, &attachtest.Rank{Trainer: &attachtest.Toy{}})
	loaded(t, tr)
	word := tr.loop.memory.start.Word(markedWord)
	train := func() {
		t.Helper()
		if _, err := tr.Train(t.Context(), trainer.Task{Slot: 1, Steps: 1}); err != nil {
			t.Fatal(err)
		}
	}
	if train(); word.Load() != 0 {
		t.Error("it is marked although nothing may be kept")
	}
	tr.KeepSteps(true)
	tr.marks()() // it is stopped at once, most often before it has begun
	end := tr.marks()
	for word.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	end()
	if word.Load() != 1 {
		t.Errorf("it is of generation %d", word.Load())
	}
	if err := tr.LoadRange(t.Context(), 0, tr.start[:1]); err != nil {
		t.Fatal(err)
	}
	if train(); word.Load() != 1 {
		t.Error("a part is marked")
	}
}
