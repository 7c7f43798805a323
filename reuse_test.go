package p2pdiloco

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A network that a program lends outlives the node: a second node can be started on it, in the same run or in another.
func TestANetworkServesOneNodeAfterAnother(t *testing.T) {
	for name, run := range map[string]string{"same run": "sim", "another run": "other"} {
		t.Run(name, func(t *testing.T) {
			inSim(t, 10*time.Millisecond, simSpec(6, 2), 3, func(s *swarm) {
				p := s.peers[0]
				p.drive = func(ctx context.Context, n *Node) error {
					first, stop := context.WithTimeout(ctx, time.Second)
					defer stop()
					if err := n.Run(first); !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("Run: %v", err)
					}
					if err := n.Close(); err != nil {
						return err
					}
					p.drive = nil
					spec, dir := s.spec, p.dir
					if spec.Name = run; run != "sim" {
						spec.StartPeers, p.dir = 1, dir+"/other"
					}
					return p.process(ctx, spec)
				}
				s.start(s.peers...)
				s.finish(time.Minute, s.but(p)...)
				if run == "sim" {
					s.finish(time.Minute, p)
				} else if err := s.outcome(p, time.After(time.Minute)); err != nil {
					t.Error(err)
				}
			})
		})
	}
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
		change func(t *testing.T, c *Config)
		want   string
	}{
		"damaged identity": {
			func(t *testing.T, c *Config) {
				c.DataDir = t.TempDir()
				if err := os.WriteFile(filepath.Join(c.DataDir, "identity"), []byte("not a key"), 0o600); err != nil {
					t.Fatal(err)
				}
			}, "identity",
		},
		"port in use":          {func(_ *testing.T, c *Config) { c.Listen = []string{"/ip4/127.0.0.1/tcp/" + port} }, port},
		"data dir is a file":   {func(_ *testing.T, c *Config) { c.DataDir = file }, "choose another"},
		"bad bootstrap":        {func(_ *testing.T, c *Config) { c.Bootstrap = []string{"/ip4/127.0.0.1/tcp/1"} }, "/p2p/"},
		"no such preset":       {func(_ *testing.T, c *Config) { c.Preset = "moon" }, "lan, wan"},
		"no name":              {func(_ *testing.T, c *Config) { c.Spec.Name = "" }, "name"},
		"another trainer":      {func(_ *testing.T, c *Config) { c.Spec.Layout = Layout{{Name: "y", Shape: []uint64{3}}} }, "Layout"},
		"a run without rounds": {func(_ *testing.T, c *Config) { c.Spec.Rounds = 1 << 40 }, "rounds"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := Config{Spec: simSpec(1, 1), Trainer: &bowl{}, Preset: PresetLAN, Listen: []string{"/ip4/127.0.0.1/tcp/0"}}
			c.change(t, &cfg)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			n, err := Join(ctx, cfg)
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
