//go:build unix

package attach

import (
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/bridge/attach/attachtest"
)

// TestMemoryIsFreeBeforeTheNextIsMade: the node works in one set's memory. The next set goes before
// the node calls it, and a third comes while the second one's memory is being freed. It was told
// that there is too little memory, on a machine with room for start and two locals.
func TestMemoryIsFreeBeforeTheNextIsMade(t *testing.T) {
	f := slowFiles(t)
	close(f.slow)
	// a file is to be closed, and may be
	begun, let := make(chan struct{}, 100), make(chan struct{}, 100)
	closeFile = func(file *MemoryFile) error {
		begun <- struct{}{}
		<-let
		return file.Close()
	}
	t.Cleanup(func() { closeFile = (*MemoryFile).Close })
	m := newMachine(t, Config{})
	defer close(let)
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
	soon(t, "the freeing", begun)
	_, told := f.welcome(m, "third", 1)
	select {
	case <-f.asks:
		t.Error("memory is made while a file is not closed yet")
		f.asks <- struct{}{}
	case err := <-told[0]:
		t.Errorf("it does not wait: %v", err)
		told[0] <- err
	case <-time.After(time.Second / 4):
	}
	let <- struct{}{}
	share(t, told)
	f.wantOpen(3) // start, and two locals
}
