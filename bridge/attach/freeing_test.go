//go:build unix

package attach

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/bridge/attach/attachtest"
	"github.com/p2pdiloco/p2pdiloco/bridge/attach/memory"
)

// freeing frees memory when a test lets it.
type freeing struct {
	begun chan struct{} // a file is to be closed
	let   chan struct{} // closed: files are closed at once
	once  sync.Once
	held  atomic.Int64 // so many are not closed yet
}

// slowFreeing holds up the closing of all files until let is closed.
func slowFreeing(t *testing.T) *freeing {
	f := &freeing{begun: make(chan struct{}, 100), let: make(chan struct{})}
	closeFile = func(file *memory.File) error {
		f.held.Add(1)
		defer f.held.Add(-1)
		f.begun <- struct{}{}
		<-f.let
		return file.Close()
	}
	t.Cleanup(func() { closeFile = (*memory.File).Close })
	return f
}

func (f *freeing) release() { f.once.Do(func() { close(f.let) }) }

// TestMemoryIsFreeBeforeTheNextIsMade: the node works in one set's memory. The next set goes before
// the node calls it, and a third comes while the second one's memory is being freed. It was told
// that there is too little memory, on a machine with room for start and two locals.
func TestMemoryIsFreeBeforeTheNextIsMade(t *testing.T) {
	f := slowFiles(t)
	close(f.slow)
	frees := slowFreeing(t)
	defer frees.release()
	m := newMachine(t, Config{})
	attach := func(set string) *attachtest.Rank {
		all, told := f.waiting(m, set, 1)
		share(t, told)
		return all[0]
	}
	first := attach("first")
	soon(t, "local", f.asks)
	if _, err := m.server.Trainer(bounded(t)); err != nil {
		t.Fatal(err)
	}
	first.Close()
	m.reaches("no trainer")
	attach("second").Close()
	m.reaches("no trainer")
	soon(t, "the freeing", frees.begun)
	_, told := f.welcome(m, "third", 1)
	select {
	case <-f.asks:
		t.Errorf("memory is made while %d files are not closed yet", frees.held.Load())
		f.asks <- struct{}{}
	case err := <-told[0]:
		t.Errorf("it does not wait: %v", err)
		told[0] <- err
	case <-time.After(time.Second / 2):
	}
	frees.release()
	share(t, told)
	f.wantOpen(3) // start, and two locals
}

// TestMemoryThatIsFreedIsNotScarce: the first set goes while its memory is made. What it had is no
// reason to warn the next one.
func TestMemoryThatIsFreedIsNotScarce(t *testing.T) {
	f := slowFiles(t)
	frees := slowFreeing(t)
	defer frees.release()
	free = func() uint64 {
		if frees.held.Load() > 0 {
			return 0
		}
		return 1 << 40
	}
	t.Cleanup(func() { free = memory.Free })
	m := newMachine(t, Config{})
	all, told := f.waiting(m, "first", 1)
	f.slow <- struct{}{} // start is there, local is not
	soon(t, "local", f.asks)
	all[0].Kill()
	<-told[0]
	m.reaches("no trainer")
	soon(t, "the freeing", frees.begun)
	_, told = f.welcome(m, "second", 2)
	m.reaches("2 ranks, for which the shared memory is made")
	frees.release()
	close(f.slow)
	share(t, told)
	if said := m.said(); len(said) > 0 {
		t.Errorf("people are told: %q", said)
	}
}
