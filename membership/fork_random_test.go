package membership

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/p2pdiloco/p2pdiloco/membership/chain"
)

// TestRandomByzantineForks is TestRandomForks in trust byzantine, where too few that are left wait:
// all peers come back in the end.
func TestRandomByzantineForks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		timing := labTiming
		timing.ForkAfter = time.Duration(rapid.IntRange(20, 40).Draw(t, "fork after, tenths")) * 100 * time.Millisecond
		w := newChaos(t, timing)
		w.lab.rules.StartPeers, w.lab.rules.Byzantine = 1, true
		for _, p := range w.lab.peers {
			p.m.cfg.Rules = w.lab.rules
			changeRules(p.m, func(r *chain.Rules) { r.StartPeers, r.Byzantine = 1, true })
			p.slowness = 600 * time.Millisecond
		}
		t.Repeat(map[string]func(*rapid.T){
			"":        w.check,
			"run":     w.pass,
			"crash":   w.crash,
			"restart": w.restart,
			"part":    w.part,
			"heal":    func(*rapid.T) { w.lab.filters = nil; w.lab.connect() },
			"join":    w.join,
		})
		w.reunite(t)
	})
}
