package nodetest

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
)

// A network that a program lends outlives the node: a second node can be started on it, in the same
// run or in another.
func TestANetworkServesOneNodeAfterAnother(t *testing.T) {
	for name, run := range map[string]string{"same run": "sim", "another run": "other"} {
		t.Run(name, func(t *testing.T) {
			Run(t, Spec(30, 2), 3, func(s *Swarm) {
				p := s.Peers[0]
				s.Start(s.But(p)...) // the run is founded without it
				s.Reach(1, s.But(p)...)
				p.Main = func(ctx context.Context, n *p2pdiloco.Node) error {
					first, stop := context.WithTimeout(ctx, time.Second)
					defer stop()
					if err := n.Run(first); !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("Run: %v", err)
					}
					if err := n.Close(); err != nil {
						return err
					}
					p.Main = nil
					spec, dir := s.Spec, p.Dir
					if spec.Name = run; run != "sim" {
						spec.StartPeers, p.Dir = 1, dir+"/other"
						p.ForgetStates() // those that follow are of another model than the others'
						p.Config = func(c *p2pdiloco.Config) { c.OnEvent = nil }
					}
					return p.Process(ctx, spec)
				}
				s.Start(p)
				s.Finish(time.Minute, s.But(p)...)
				if run == "sim" {
					s.Finish(time.Minute, p)
				} else if err := s.Outcome(p, time.After(time.Minute)); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// hesitant is a trainer that does not finish the initial parameters.
type hesitant struct {
	*Bowl
	asked chan struct{}
}

func (h hesitant) Init(ctx context.Context, _ []float32) error {
	close(h.asked)
	<-ctx.Done()
	return ctx.Err()
}

// The peer that alone may found the run dies before it has done so. The others have its spec, which
// nobody else can found: they say for whom they wait, and train with it when it is back.
func TestAFounderDiesBeforeItFounds(t *testing.T) {
	Run(t, Spec(4, 2), 3, func(s *Swarm) {
		founder := slices.MinFunc(s.Peers, func(a, b *Peer) int {
			return strings.Compare(string(s.Net.Hosts[a.Host].ID()), string(s.Net.Hosts[b.Host].ID()))
		})
		slow := hesitant{founder.Trainer.(*Bowl), make(chan struct{})}
		founder.Trainer = slow
		s.Start(s.Peers...)
		<-slow.asked
		time.Sleep(10 * time.Second)
		s.Kill(founder)
		time.Sleep(time.Minute)
		for _, p := range s.But(founder) {
			said := p.Node.Load().Status().Reason
			if p.Had("run.founded") || !strings.Contains(said, s.ID(founder).Short()) {
				t.Errorf("host %d says %q", p.Host, said)
			}
		}
		founder.Trainer = slow.Bowl
		s.Restart(founder)
		s.Finish(time.Minute, s.Peers...)
	})
}

// What is wrong with the machine is said at once, and nothing is left running.
func TestJoinSaysWhatIsWrong(t *testing.T) {
	busy, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	port := strings.TrimPrefix(busy.Addr().String(), "127.0.0.1:")
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(t *testing.T, c *p2pdiloco.Config)
		want   string
	}{
		"damaged identity": {
			func(t *testing.T, c *p2pdiloco.Config) {
				c.DataDir = t.TempDir()
				if err := os.WriteFile(filepath.Join(c.DataDir, "identity"), []byte("not a key"), 0o600); err != nil {
					t.Fatal(err)
				}
			}, "identity",
		},
		"port in use": {
			func(_ *testing.T, c *p2pdiloco.Config) { c.Listen = []string{"/ip4/127.0.0.1/tcp/" + port} },
			port,
		},
		"data dir is a file": {func(_ *testing.T, c *p2pdiloco.Config) { c.DataDir = file }, "choose another"},
		"bad bootstrap": {
			func(_ *testing.T, c *p2pdiloco.Config) { c.Bootstrap = []string{"/ip4/127.0.0.1/tcp/1"} },
			"/p2p/",
		},
		"no such preset": {func(_ *testing.T, c *p2pdiloco.Config) { c.Preset = "moon" }, "lan, wan"},
		"no name":        {func(_ *testing.T, c *p2pdiloco.Config) { c.Spec.Name = "" }, "name"},
		"another trainer": {func(_ *testing.T,
			c *p2pdiloco.Config,
		) {
			c.Spec.Layout = p2pdiloco.Layout{{Name: "y", Shape: []uint64{3}}}
		}, "Layout"},
		"a run without rounds": {func(_ *testing.T, c *p2pdiloco.Config) { c.Spec.Rounds = 1 << 40 }, "rounds"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := p2pdiloco.Config{
				Spec: Spec(1, 1), Trainer: &Bowl{}, Preset: p2pdiloco.PresetLAN,
				Listen: []string{"/ip4/127.0.0.1/tcp/0"},
			}
			c.change(t, &cfg)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			n, err := p2pdiloco.Join(ctx, cfg)
			if err == nil {
				_ = n.Close()
				t.Fatal("Join accepted it")
			}
			if !strings.Contains(err.Error(), c.want) || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%q says nothing of %q", err, c.want)
			}
		})
	}
}
