package chaos

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
)

// died is a runner with a peer whose process has ended.
func died(t *testing.T) (*runner, *fault) {
	t.Helper()
	program, err := exec.LookPath("true")
	if err != nil {
		t.Skip(err)
	}
	c, err := swarm.New(swarm.Setting{Executable: program}, swarm.Loopback{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	r := paper(1)
	r.nodes[0].Peer = c.NewPeer(1, t.TempDir(), "peer-1")
	if err := c.Join(r.nodes[0].Peer, "run", nil); err != nil {
		t.Fatal(err)
	}
	<-r.nodes[0].Ended
	r.nodes[0].gone = true
	return r, &fault{victims: r.nodes, Injected: Injected{began: time.Now()}}
}

// TestAFullDiskIsSaid: it is a fault if the peer goes on, or if it ends for another reason.
func TestAFullDiskIsSaid(t *testing.T) {
	for _, c := range []struct {
		name       string
		gone, late bool
		log        string
		over       bool
		odd        int
	}{
		{"it ends and says so", true, false, "write: no space left on device", true, 0},
		{"it ends for another reason", true, false, "panic", true, 1},
		{"it still runs", false, false, "", false, 0},
		{"it goes on", false, true, "no space left on device", true, 1},
	} {
		r, f := died(t)
		if r.nodes[0].gone, f.filled = c.gone, time.Now(); c.late {
			f.filled = f.filled.Add(-endWithin)
		}
		if err := os.WriteFile(r.nodes[0].Log, []byte(c.log), 0o600); err != nil {
			t.Fatal(err)
		}
		if over := r.endedFull(f); over != c.over || len(r.odd) != c.odd {
			t.Errorf("%s: over %v, %q", c.name, over, r.odd)
		}
	}
}
