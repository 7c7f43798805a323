//go:build unix

package attach

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/bridge/attach/attachtest"
	"github.com/p2pdiloco/p2pdiloco/bridge/attach/wire"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// files makes memory as slowly as a test wants, and knows what was closed.
type files struct {
	t    *testing.T
	slow chan struct{} // closed, or sent to for each file: it is made
	asks chan struct{} // a file is asked for
	mu   struct {
		sync.Mutex
		made []*MemoryFile
		left uint64 // bytes that there is room for
	}
}

// slowFiles has all memory made by it. Servers of the test are closed before it ends.
func slowFiles(t *testing.T) *files {
	f := &files{t: t, slow: make(chan struct{}), asks: make(chan struct{}, 100)}
	f.mu.left = 1 << 40
	newFile = f.new
	t.Cleanup(func() {
		newFile = NewMemoryFile
		f.wantOpen(0)
	})
	return f
}

func (f *files) new(ctx context.Context, size uint64) (*MemoryFile, error) {
	f.asks <- struct{}{}
	select {
	case <-f.slow:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if size > f.mu.left {
		return nil, errors.New("too little memory")
	}
	file, err := NewMemoryFile(ctx, size)
	if err == nil {
		f.mu.left -= size
		f.mu.made = append(f.mu.made, file)
	}
	return file, err
}

// wantOpen waits until so many of the files that were made are open, the others closed.
func (f *files) wantOpen(want int) {
	f.t.Helper()
	within(f.t, fmt.Sprintf("%d open files", want), func() bool {
		n := 0
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, file := range f.mu.made {
			if _, err := file.Stat(); !errors.Is(err, os.ErrClosed) {
				n++
			}
		}
		return n == want
	})
}

// waiting are ranks that wait for the memory. Each can be killed.
func (f *files) waiting(m *machine, set string, world int) (all []*attachtest.Rank, told []chan error) {
	f.t.Helper()
	all, told = f.welcome(m, set, world)
	soon(f.t, "a file", f.asks)
	return all, told
}

// welcome are ranks that attach.
func (f *files) welcome(m *machine, set string, world int) (all []*attachtest.Rank, told []chan error) {
	f.t.Helper()
	for i := range world {
		welcome, c := make(chan struct{}), make(chan error, 1)
		r := &attachtest.Rank{
			Trainer: &attachtest.Toy{}, Number: uint64(i), World: uint64(world), Set: set,
			OnWelcome: func() { close(welcome) },
		}
		all, told = append(all, r), append(told, c)
		go func() { c <- r.Attach(m.server.Path()) }()
		soon(f.t, "a welcome", welcome)
	}
	return all, told
}

// share has all ranks get their memory.
func share(t *testing.T, told []chan error) {
	t.Helper()
	for _, c := range told {
		must(t, soon(t, "the memory", c))
	}
}

// reaches waits until the node says that of its trainer. A set that comes before it knows that the
// last one is gone is told that another one trains here.
func (m *machine) reaches(state string) {
	m.t.Helper()
	within(m.t, state, func() bool { return m.server.State() == state })
}

// within waits until something is so.
func within(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never came: %s", what)
		}
	}
}

func soon[T any](t *testing.T, what string, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(10 * time.Second):
		t.Fatalf("%s takes too long", what)
	}
	return v
}

// TestANodeThatMakesMemoryAnswers: a set comes again. While the memory of a large model was made,
// the loop did nothing else: clients took a healthy node for one that is stopped. It beats and
// answers, and does not take the trainer for gone although it makes memory for longer than it would
// wait for one, or for a rank. What people are told meanwhile reaches the ranks.
func TestANodeThatMakesMemoryAnswers(t *testing.T) {
	f := slowFiles(t)
	m := newMachine(t, Config{Return: time.Second, Timeout: 2 * time.Second})
	first, told := f.waiting(m, "first", 1)
	f.slow <- struct{}{}
	f.slow <- struct{}{}
	share(t, told)
	defer first[0].Close()
	tr, err := m.server.Trainer(bounded(t))
	must(t, err)
	first[0].Kill()
	soon(t, "local of the first", f.asks)
	m.reaches("no trainer")
	second, told := f.waiting(m, "second", 2)
	m.server.Notify(wire.NoticeWarn, "paused: no quorum")
	beat := m.server.loop.memory.start.Word(beatWord)
	before, began := beat.Load(), time.Now()
	other := &attachtest.Rank{Trainer: &attachtest.Toy{}, World: 1, Set: "x"}
	wantCode(t, other.Attach(m.server.Path()), wire.CodeBusy, "second trains this run here")
	if took := time.Since(began); took > time.Second {
		t.Errorf("the answer took %v", took)
	}
	l := m.server.loop
	for hours := range 3 {
		l.do(func() []Effect {
			later := began.Add(time.Duration(1+hours) * time.Hour)
			return append(l.box.Tick(later, l.memory.steps()), l.awaitTrainer(later)...)
		})
	}
	if m.reaches("2 ranks, for which the shared memory is made"); m.server.Err() != nil {
		t.Errorf("after hours the trainer counts as gone: %v", m.server.Err())
	}
	within(t, "3 beats", func() bool { return beat.Load() >= before+3 })
	close(f.slow)
	share(t, told)
	for i, r := range second { // what was said meanwhile comes with the memory
		_, err := r.Ping()
		if got := r.Notices; err != nil || len(got) != 1 || got[0].Text != "paused: no quorum" {
			t.Errorf("rank %d: %v, it was told %+v", i, err, got)
		}
	}
	must(t, tr.Return(bounded(t), trainer.ErrAnew))
	f.wantOpen(2) // the first one's local is gone
}

// TestARankGoesWhileMemoryIsMade: the others are told at once, what was made is closed, and the
// next set has what it needs.
func TestARankGoesWhileMemoryIsMade(t *testing.T) {
	f := slowFiles(t)
	m := newMachine(t, Config{})
	all, told := f.waiting(m, "first", 2)
	f.slow <- struct{}{} // start is there, local is not
	soon(t, "local", f.asks)
	all[1].Kill()
	wantCode(t, soon(t, "the last word", told[0]), wire.CodeLost, "rank 1 of 2 was lost")
	<-told[1]
	f.wantOpen(0)
	if m.server.Came() {
		t.Error("it counts as one that has attached")
	}
	all, told = f.waiting(m, "second", 2) // all of them go
	all[0].Kill()
	all[1].Kill()
	<-told[0]
	<-told[1]
	m.reaches("no trainer")
	_, told = f.waiting(m, "third", 1)
	close(f.slow)
	share(t, told)
	if _, err := m.server.Trainer(bounded(t)); err != nil {
		t.Fatal(err)
	}
	f.wantOpen(2)
}

// TestTheNodeEndsWhileMemoryIsMade: it does not wait for memory that nobody wants any more.
func TestTheNodeEndsWhileMemoryIsMade(t *testing.T) {
	f := slowFiles(t)
	m := newMachine(t, Config{})
	_, told := f.waiting(m, "first", 2)
	f.slow <- struct{}{}
	soon(t, "local", f.asks)
	closed := make(chan error, 1)
	go func() { closed <- m.server.Close() }()
	for _, c := range told {
		wantCode(t, soon(t, "the last word", c), wire.CodeClosed, "the node has ended")
	}
	if err := soon(t, "the end", closed); err != nil {
		t.Error(err)
	}
	f.wantOpen(0)
}

// TestAModelThatFitsOnceIsForgotten: start had its memory, and local has none any more. A smaller
// model comes next, and was given the memory and the layout of the first one. What a set has shared
// stays all the same: the node works in it.
func TestAModelThatFitsOnceIsForgotten(t *testing.T) {
	f := slowFiles(t)
	close(f.slow)
	m := newMachine(t, Config{})
	attach := func(d, left uint64) (*attachtest.Rank, error) {
		f.mu.Lock()
		f.mu.left = left
		f.mu.Unlock()
		r := &attachtest.Rank{Trainer: &wide{d: d}, World: 1, Set: "one"}
		return r, r.Attach(m.server.Path())
	}
	const d = 1 << 20
	_, err := attach(d, Size(d)*3/2)
	wantCode(t, err, wire.CodeMemory, "too little memory")
	f.wantOpen(0)
	if n := m.server.loop.memory.bytes.Load(); n != 0 || m.server.Came() {
		t.Errorf("%d bytes are mapped", n)
	}
	r, err := attach(d/4, 2*Size(d/4))
	must(t, err)
	tr, err := m.server.Trainer(bounded(t))
	if err != nil || tr.Layout().Elements() != d/4 {
		t.Fatal(tr.Layout(), err)
	}
	tr.start[0] = 7
	r.Close()
	m.reaches("no trainer")
	_, err = attach(d/4, 0)
	wantCode(t, err, wire.CodeMemory, "too little memory")
	if tr.start[0] != 7 {
		t.Error("what is shared is gone")
	}
	f.wantOpen(2)
}

// wide is a toy of another size.
type wide struct {
	attachtest.Toy
	d uint64
}

func (w *wide) Layout() trainer.Layout { return trainer.Layout{{Name: "w", Shape: []uint64{w.d}}} }
