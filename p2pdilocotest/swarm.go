// Package p2pdilocotest has runs of several nodes in one process, for the tests of programs that
// import p2pdiloco.
//
//	func TestMyTrainer(t *testing.T) {
//		nodes := p2pdilocotest.Swarm(t, 3, func(i int, cfg *p2pdiloco.Config) {
//			cfg.Spec.Layout, cfg.Trainer = nil, newMyTrainer(i)
//		})
//		... // run each node, and compare their statuses
//	}
package p2pdilocotest

import (
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/sim"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// Swarm joins n nodes to one run, over libp2p hosts that exist only in memory, and closes them when
// the test ends. No socket is opened, so it also works in a bubble of testing/synctest, whose time
// passes at once.
//
// Each node has the preset lan and a temporary data directory. The run waits for all nodes before
// its first slot, ends after three, and has a model of four zeros; node 0 founds it. change, called
// for each node before it joins, may set all else in its configuration, and must change what is
// run-wide for all.
func Swarm(t testing.TB, n int, change ...func(i int, cfg *p2pdiloco.Config)) []*p2pdiloco.Node {
	t.Helper()
	net := sim.NewMemory(t, n, time.Millisecond)
	var nodes []*p2pdiloco.Node
	for i := range n {
		cfg := p2pdiloco.Config{
			Preset: p2pdiloco.PresetLAN, Found: i == 0, AtOnce: i == 0, DataDir: t.TempDir(),
			Spec: p2pdiloco.Spec{
				Name: "test", Rounds: 3, StartPeers: uint64(n), Trust: p2pdiloco.TrustCrash,
				Layout: p2pdiloco.Layout{{Name: "w", Shape: []uint64{4}}},
			},
		}
		for _, f := range change {
			f(i, &cfg)
		}
		network := p2p.LAN()
		if i > 0 {
			network.Bootstrap = []string{net.Addr(0)}
		}
		var err error
		if cfg.Network, err = p2p.New(t.Context(), network, p2p.WithHost(net.Hosts[i])); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cfg.Network.Close() })
		node, err := p2pdiloco.Join(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = node.Close() })
		nodes = append(nodes, node)
	}
	return nodes
}
