package disks

import (
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/crypto"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
	"github.com/p2pdiloco/p2pdiloco/internal/sim"
)

// A member's identity is copied to a host with a data directory of its own. Both nodes end with an
// error that says so, also in their status; the others go on to the end of the run.
func TestACopiedIdentity(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]bool{"while both are members": true, "before the others come": false} {
		t.Run(name, func(t *testing.T) {
			nodetest.RunOver(t, sim.New, 10*time.Millisecond, nodetest.Spec(12, 3), 3, func(s *nodetest.Swarm) {
				key, _, err := crypto.GenerateEd25519Key(rand.Reader)
				if err != nil {
					t.Fatal(err)
				}
				honest := s.Peers
				s.Net.Options = []libp2p.Option{libp2p.Identity(key)}
				twins := []*nodetest.Peer{s.Add(), s.Add()}
				s.Pace(200 * time.Millisecond)
				if late {
					s.Start(honest...)
					s.Reach(1, honest...)
					s.Start(twins[0])
					s.Reach(2, append(honest, twins[0])...)
					// its inner steps take for ever: the end does not wait for them
					endless := make(chan struct{})
					twins[0].Trainer.(*nodetest.Bowl).Frozen.Store(&endless)
					s.Start(twins[1])
				} else {
					s.Start(twins...)
					s.Net.Connect(twins[0].Host, 0)
					s.Net.Connect(twins[1].Host, 0)
				}
				for _, p := range twins {
					s.Until(time.Minute, "an end", func() bool { return p.Had("peer.cloned") && len(p.Done) > 0 })
					if n := p.Node.Load(); n != nil {
						if st := n.Status(); st.Phase != p2pdiloco.PhaseClosed ||
							!strings.Contains(st.Detail, "stop the other one") {
							t.Errorf("host %d: its status is %s: %s", p.Host, st.Phase, st.Detail)
						}
					} else if late {
						t.Errorf("host %d never joined", p.Host)
					}
					err := s.Outcome(p, nil)
					if !errors.Is(err, p2pdiloco.ErrCloned) || !strings.Contains(err.Error(), "stop the other one") {
						t.Errorf("host %d ends with %v", p.Host, err)
					}
				}
				if !late {
					s.Start(honest...)
				}
				s.Finish(5*time.Minute, honest...)
				for _, p := range honest {
					if p.Had("peer.cloned") {
						t.Errorf("host %d says %v", p.Host, p.Events("peer.cloned"))
					}
				}
			})
		})
	}
}
