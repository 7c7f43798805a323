package p2pdiloco

import (
	"os"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/node/datadir"
	"github.com/p2pdiloco/p2pdiloco/internal/node/edge"
)

// The first peer of an open run founds it when the search is over. If it told of a longer wait, its
// operator would plan with that. One that has no model for a run must not say that it founds it.
func TestTheTimeUntilFoundingIsSaid(t *testing.T) {
	for _, c := range []struct {
		trust           string
		newcomer, model bool
		want            string
	}{
		{"", true, true, "after 20s"},
		{"", false, true, "after 30s"}, // it may have founded the run, and lost its data
		{TrustCrash, true, true, "after 30s"},
		{TrustCrash, true, false, noModel},
	} {
		spec, cfg := presetSpec()
		cfg.Spec.Trust = c.trust
		if c.model {
			cfg.Spec.Layout = spec.Layout
		}
		n := &Node{origin: origin{
			cfg: cfg, newcomer: c.newcomer, hooks: edge.HooksFrom(t.Context()), dir: datadir.At(disk.OS, t.TempDir()),
		}}
		n.first = n.hooks.Preset(PresetWAN)
		if got := n.searching(); !strings.HasSuffix(got, c.want) {
			t.Errorf("run %s, trust %q, newcomer %v, model %v: %q, want %q", spec.Name, c.trust, c.newcomer, c.model,
				got, c.want)
		}
	}
}

// A member that comes back looks on the local network as well: the bootstrap node that it names may
// be gone, and the others' addresses may have changed. A newcomer with a mistyped address does not:
// it would found a run.
func TestWhoLooksOnTheLocalNetwork(t *testing.T) {
	dir := datadir.At(disk.OS, t.TempDir())
	named := Config{Bootstrap: []string{"/ip4/192.0.2.1/tcp/1/p2p/x"}}
	if networkOf(named, dir).MDNS || !networkOf(Config{}, dir).MDNS {
		t.Error("a newcomer looks where it names a bootstrap node, or looks nowhere")
	}
	if err := os.WriteFile(dir.Path(datadir.LedgerFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if !networkOf(named, dir).MDNS {
		t.Error("a member that comes back looks only at its bootstrap node")
	}
}
