//go:build unix

package attach

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/bridge/attach/attachtest"
	"github.com/p2pdiloco/p2pdiloco/bridge/attach/memory"
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
		made []*memory.File
		left uint64 // bytes that there is room for
	}
}

// slowFiles has all memory made by it. Servers of the test are closed before it ends.
func slowFiles(t *testing.T) *files {
	f := &files{t: t, slow: make(chan struct{}), asks: make(chan struct{}, 100)}
	f.mu.left = 1 << 40
	newFile = f.new
	t.Cleanup(func() {
		newFile = memory.New
		f.wantOpen(0)
	})
	return f
}

func (f *files) new(ctx context.Context, size uint64) (*memory.File, error) {
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
	file, err := memory.New(ctx, size)
	if err == nil {
		f.mu.left -= size
		f.mu.made = append(f.mu.made, file)
	}
	return file, err
}

// wantOpen waits until so many of the files that were made are open, the others closed.
func (f *files) wantOpen(want int) {
	f.t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		n := 0
		f.mu.Lock()
		for _, file := range f.mu.made {
			if _, err := file.Stat(); !errors.Is(err, os.ErrClosed) {
				n++
			}
		}
		f.mu.Unlock()
		if n == want {
			return
		}
		if time.Now().After(end) {
			f.t.Errorf("%d files are open, not %d", n, want)
			return
		}
	}
}

// waiting are ranks that wait for the memory. Each can be killed.
func (f *files) waiting(m *machine, set string, world int) (all []*attachtest.Rank, told []chan error) {
	f.t.Helper()
	all, told = f.welcome(m, set, world)
	f.asked()
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
		select {
		case <-welcome:
		case err := <-c:
			f.t.Fatalf("rank %d of %s is not welcome: %v", i, set, err)
		case <-time.After(10 * time.Second):
			f.t.Fatalf("rank %d of %s waits for a welcome", i, set)
		}
	}
	return all, told
}

// asked waits until a file is asked for.
func (f *files) asked() {
	f.t.Helper()
	select {
	case <-f.asks:
	case <-time.After(10 * time.Second):
		f.t.Fatal("no file is asked for")
	}
}

// alone waits until the node knows that its trainer is gone. A set that comes before that is told
// that another one trains here.
func (m *machine) alone() {
	m.t.Helper()
	m.reaches("no trainer")
}

// reaches waits until the node says that of its trainer.
func (m *machine) reaches(state string) {
	m.t.Helper()
	for end := time.Now().Add(10 * time.Second); m.server.State() != state; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			m.t.Fatalf("the node says %q, not %q", m.server.State(), state)
		}
	}
}

func soon(t *testing.T, what string, c <-chan error) error {
	t.Helper()
	select {
	case err := <-c:
		return err
	case <-time.After(10 * time.Second):
		t.Fatalf("%s takes too long", what)
		return nil
	}
}

// TestANodeThatMakesMemoryAnswers: while the memory of a large model is made, the loop did nothing
// else. No PING was answered, and no beat was given, so that clients took a healthy node for one
// that is stopped.
func TestANodeThatMakesMemoryAnswers(t *testing.T) {
	f := slowFiles(t)
	m := newMachine(t, Config{Return: time.Second, Timeout: 2 * time.Second})
	_, told := f.waiting(m, "first", 2)
	answered := make(chan error, 1)
	began := time.Now()
	go func() {
		answered <- (&attachtest.Rank{Trainer: &attachtest.Toy{}, World: 1, Set: "x"}).Attach(m.server.Path())
	}()
	wantCode(t, soon(t, "an answer", answered), wire.CodeBusy, "first trains this run here")
	if took := time.Since(began); took > time.Second {
		t.Errorf("the answer took %v", took)
	}
	if s := m.server.State(); s != "2 ranks, for which the shared memory is made" {
		t.Error(s)
	}
	time.Sleep(3 * time.Second) // longer than any rank may take
	close(f.slow)
	for _, c := range told {
		if err := soon(t, "the memory", c); err != nil {
			t.Fatal(err)
		}
	}
	f.wantOpen(2)
}

// TestTheBeatGoesOnWhileMemoryIsMade: a set comes again. The node beats, and does not take the
// trainer for gone although it makes memory for longer than it would wait for one. What people are
// told meanwhile reaches the ranks.
func TestTheBeatGoesOnWhileMemoryIsMade(t *testing.T) {
	f := slowFiles(t)
	m := newMachine(t, Config{Return: time.Second})
	first, told := f.waiting(m, "first", 1)
	f.slow <- struct{}{}
	f.slow <- struct{}{}
	if err := soon(t, "the memory", told[0]); err != nil {
		t.Fatal(err)
	}
	defer first[0].Close()
	tr, err := m.server.Trainer(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	first[0].Kill()
	f.asked() // local of the first
	m.alone()
	second, told := f.waiting(m, "second", 2)
	m.server.Notify(wire.NoticeWarn, "paused: no quorum")
	beat := m.server.loop.memory.start.Word(beatWord)
	before := beat.Load()
	time.Sleep(2 * time.Second)
	if n := beat.Load() - before; n < 2 {
		t.Errorf("%d beats in 2 s", n)
	}
	select {
	case <-m.server.Done():
		t.Fatalf("the node ends: %v", m.server.Err())
	default:
	}
	close(f.slow)
	for _, c := range told {
		if err := soon(t, "the memory", c); err != nil {
			t.Fatal(err)
		}
	}
	for i, r := range second { // what was said meanwhile comes with the memory
		_, err := r.Ping()
		if got := r.Notices; err != nil || len(got) != 1 || got[0].Text != "paused: no quorum" {
			t.Errorf("rank %d: %v, it was told %+v", i, err, got)
		}
	}
	if err := tr.Return(bounded(t), trainer.ErrAnew); err != nil {
		t.Fatal(err)
	}
	f.wantOpen(2) // the first one's local is gone
}

// TestARankGoesWhileMemoryIsMade: the others are told at once, what was made is closed, and the
// next set has what it needs.
func TestARankGoesWhileMemoryIsMade(t *testing.T) {
	f := slowFiles(t)
	m := newMachine(t, Config{})
	all, told := f.waiting(m, "first", 2)
	f.slow <- struct{}{} // start is there, local is not
	f.asked()
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
	m.alone()
	_, told = f.waiting(m, "third", 1)
	close(f.slow)
	if err := soon(t, "the memory", told[0]); err != nil {
		t.Fatal(err)
	}
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
	f.asked()
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
	_, err := attach(d, memory.Size(d)*3/2)
	wantCode(t, err, wire.CodeMemory, "too little memory")
	f.wantOpen(0)
	if n := m.server.loop.memory.bytes.Load(); n != 0 || m.server.Came() {
		t.Errorf("%d bytes are mapped", n)
	}
	r, err := attach(d/4, 2*memory.Size(d/4))
	if err != nil {
		t.Fatal(err)
	}
	tr, err := m.server.Trainer(bounded(t))
	if err != nil || tr.Layout().Elements() != d/4 {
		t.Fatal(tr.Layout(), err)
	}
	tr.start[0] = 7
	r.Close()
	m.alone()
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

// TestNoMemoryIsMadeForNobody: a file that is asked for by nobody any more is not made to its end.
func TestNoMemoryIsMadeForNobody(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	before := descriptors(t)
	if f, err := memory.New(ctx, memory.Size(1<<20)); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", f, err)
	}
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors, before it were %d", after, before)
	}
}

// descriptors counts this process's files for vectors.
func descriptors(t *testing.T) (n int) {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	for _, e := range all {
		name, _ := os.Readlink(filepath.Join("/proc/self/fd", e.Name()))
		if strings.Contains(name, "p2pdiloco-vectors") {
			n++
		}
	}
	return n
}
