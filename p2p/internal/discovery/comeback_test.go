package discovery

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/sim"
)

// A bootstrap node that was started again knows nobody. Members dial it though they have each
// other, and announce themselves there at once: a newcomer that knows only it finds them.
func TestABootstrapNodeThatComesBackIsTold(t *testing.T) {
	for _, more := range []time.Duration{0, 10 * time.Second, 20 * time.Second} {
		synctest.Test(t, func(t *testing.T) { comeBack(t, 5*time.Minute+more) })
	}
}

// comeBack takes the bootstrap node away for a time. The peers' own pauses of 30 s are in another
// phase each time.
func comeBack(t *testing.T, away time.Duration) {
	s := sim.New(t, 4, 10*time.Millisecond)
	boot := simulated(t, s, 0, wan())
	cfg := wan()
	cfg.Bootstrap = []string{s.Addr(0)}
	for i := 1; i <= 2; i++ {
		n := simulated(t, s, i, cfg)
		n.advertise(t, "run")
		n.find(t.Context(), "run")
	}
	time.Sleep(10 * time.Minute) // announcements and searches are far apart by now

	noError(t, boot.close())
	for i := 1; i <= 3; i++ {
		s.Cut(0, i)
	}
	for _, id := range s.Hosts[0].Network().Peers() {
		noError(t, s.Hosts[0].Network().ClosePeer(id))
	}
	newcomer := simulated(t, s, 3, cfg)
	found := newcomer.find(t.Context(), "run")
	time.Sleep(away)

	again := simulated(t, s, 0, wan())
	for i := 1; i <= 3; i++ {
		s.Heal(0, i)
	}
	began := time.Now()
	collect(t, found, 2, 18*time.Second)
	t.Logf("a newcomer found both members %s after the bootstrap node came back", time.Since(began))
	time.Sleep(18*time.Second - time.Since(began))
	key, err := runKey("run")
	if err != nil {
		t.Fatal(err)
	}
	held, err := again.env.DHT.ProviderStore().GetProviders(t.Context(), key.Hash())
	if err != nil || len(held) != 2 {
		t.Errorf("the bootstrap node holds announcements of %v, %v", held, err)
	}
}
