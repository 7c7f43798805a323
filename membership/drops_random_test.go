package membership

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// TestNobodyThatVotesIsMute runs seven members over links that lose messages and take up to 350 ms,
// while one after the other dies and comes back. None is taken for one that does not vote or lead.
func TestNobodyThatVotesIsMute(t *testing.T) {
	for seed := range uint64(2) {
		random := rand.New(rand.NewPCG(seed, 1))
		rules := labRules()
		rules.Byzantine, rules.StartPeers = true, 7
		l := newLab(t, rules, labTiming)
		for _, n := range "ABCDEFG" {
			l.add(string(n))
		}
		l.connect()
		l.delays = func() []time.Duration {
			if random.IntN(50) == 0 {
				return nil // lost
			}
			return []time.Duration{time.Duration(1+random.IntN(40)*random.IntN(10)) * time.Millisecond}
		}
		l.run(10*time.Second, func() bool { return false })
		for range 20 {
			down := l.peers[random.IntN(7)]
			down.crash()
			l.connect()
			l.run(time.Duration(random.IntN(5000))*time.Millisecond, func() bool { return false })
			down.start()
			l.connect()
			l.run(time.Duration(2000+random.IntN(5000))*time.Millisecond, func() bool { return false })
		}
		for _, line := range l.log {
			if strings.Contains(line, "has not voted") || strings.Contains(line, "has led") {
				t.Errorf("seed %d: %s", seed, line)
			}
		}
		if h := l.peers[0].m.View().Tip; h.Slot < 40 {
			t.Errorf("seed %d: %d slots\n%s", seed, h.Slot, l.show())
		}
	}
}
