package disks

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
)

// An old copy of a data directory is put back: the node ends with an error that says so, and the
// others go on.
func TestAnOldDataDirectoryPutBack(t *testing.T) {
	nodetest.Run(t, 10*time.Millisecond, nodetest.Spec(12, 3), 3, func(s *nodetest.Swarm) {
		s.Pace(20 * time.Millisecond)
		s.Start(s.Peers...)
		s.Reach(2, s.Peers...)
		p := s.But(s.Founder())[0]
		s.Stop(p)
		copied := filepath.Join(t.TempDir(), "copy")
		if err := os.CopyFS(copied, os.DirFS(p.Dir)); err != nil {
			t.Fatal(err)
		}
		at := p.Applied()
		s.Start(p)
		s.Until(time.Minute, "contributing again", func() bool { return s.ContributedAfter(p, at+1) })
		s.Stop(p)
		if err := errors.Join(os.RemoveAll(p.Dir), os.CopyFS(p.Dir, os.DirFS(copied))); err != nil {
			t.Fatal(err)
		}
		s.Start(p)
		select {
		case err := <-p.Done:
			p.Done <- err
			if !errors.Is(err, p2pdiloco.ErrCloned) || !p.Had("peer.cloned") {
				t.Errorf("it ended with %v", err)
			}
		case <-time.After(time.Minute):
			t.Errorf("it has not noticed\n%s", s)
		}
		s.Finish(3*time.Minute, s.But(p)...)
	})
}
