package p2pdiloco

import (
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/node/datadir"
	"github.com/p2pdiloco/p2pdiloco/internal/node/edge"
	"github.com/p2pdiloco/p2pdiloco/internal/node/formation"
	"github.com/p2pdiloco/p2pdiloco/membership"
)

// What a stranger says of the run's preset is not remembered before this peer is a member: with the
// wrong one it may never be.
func TestAPresetIsRememberedByMembers(t *testing.T) {
	dir, err := datadir.Open(disk.OS, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	spec, cfg := presetSpec()
	n := &Node{origin: origin{cfg: cfg, dir: dir, hooks: edge.HooksFrom(t.Context())}}
	n.first = n.hooks.Preset(PresetWAN)
	lan := n.hooks.Preset(PresetLAN)
	f := n.formationConfig()
	f.Preset = PresetLAN // as a stranger may have told it
	n.formation = formation.New(f)
	n.formation.Adopt(spec)
	if err := n.adoptPreset(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n.timing != lan {
		t.Error("the run's preset is not taken")
	}
	if name, err := dir.LoadPreset(PresetLAN, PresetWAN); err != nil || name != "" {
		t.Errorf("a peer that is no member remembers %q, %v", name, err)
	}
	n.turn(membership.View{}, membership.View{IsMember: true})
	if name, err := dir.LoadPreset(PresetLAN, PresetWAN); err != nil || name != PresetLAN {
		t.Errorf("a member remembers %q, %v", name, err)
	}
	if err := dir.Close(); err != nil {
		t.Error(err)
	}
}

func presetSpec() (Spec, Config) {
	spec := Spec{Name: "sim", Rounds: 10, StartPeers: 1}
	spec.Layout = Layout{{Name: "w", Shape: []uint64{4}}}
	return spec.Settled(), Config{Spec: Spec{Name: spec.Name}}.withDefaults()
}
