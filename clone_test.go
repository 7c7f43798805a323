package p2pdiloco

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// An old copy of a data directory is put back: the node ends with an error that says so, and the others go on.
func TestAnOldDataDirectoryPutBack(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(12, 3), 3, func(s *swarm) {
		s.pace(20 * time.Millisecond)
		s.start(s.peers...)
		s.reach(2, s.peers...)
		p := s.but(s.founder())[0]
		s.stop(p)
		copied := filepath.Join(t.TempDir(), "copy")
		if err := os.CopyFS(copied, os.DirFS(p.dir)); err != nil {
			t.Fatal(err)
		}
		at := p.applied()
		s.start(p)
		s.until(time.Minute, "contributing again", func() bool { return s.contributedAfter(p, at+1) })
		s.stop(p)
		if err := errors.Join(os.RemoveAll(p.dir), os.CopyFS(p.dir, os.DirFS(copied))); err != nil {
			t.Fatal(err)
		}
		s.start(p)
		select {
		case err := <-p.done:
			p.done <- err
			if !errors.Is(err, ErrCloned) || !p.had("peer.cloned") {
				t.Errorf("it ended with %v", err)
			}
		case <-time.After(time.Minute):
			t.Errorf("it has not noticed\n%s", s)
		}
		s.finish(3*time.Minute, s.but(p)...)
	})
}
