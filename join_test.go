package p2pdiloco

import (
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/node/datadir"
	"github.com/p2pdiloco/p2pdiloco/internal/node/testhooks"
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
			cfg: cfg, newcomer: c.newcomer, hooks: testhooks.From(t.Context()), dir: datadir.At(disk.OS, t.TempDir()),
		}}
		n.first = n.hooks.Preset(PresetWAN)
		if got := n.searching(); !strings.HasSuffix(got, c.want) {
			t.Errorf("run %s, trust %q, newcomer %v, model %v: %q, want %q", spec.Name, c.trust, c.newcomer, c.model,
				got, c.want)
		}
	}
}
