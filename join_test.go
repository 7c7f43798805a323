package p2pdiloco

import (
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/node/testhooks"
)

// The first peer of an open run founds it when the search is over. If it told of a longer wait, its
// operator would plan with that.
func TestTheTimeUntilFoundingIsSaid(t *testing.T) {
	for _, c := range []struct {
		trust    string
		newcomer bool
		want     string
	}{
		{"", true, "after 20s"},
		{"", false, "after 30s"}, // it may have founded the run, and lost its data
		{TrustCrash, true, "after 30s"},
	} {
		spec, cfg := presetSpec()
		cfg.Spec.Trust = c.trust
		n := &Node{origin: origin{cfg: cfg, newcomer: c.newcomer, hooks: testhooks.From(t.Context())}}
		n.first = n.hooks.Preset(PresetWAN)
		if got := n.searching(); !strings.HasSuffix(got, c.want) {
			t.Errorf("run %s, trust %q, newcomer %v: %q, want %q", spec.Name, c.trust, c.newcomer, got, c.want)
		}
	}
}
