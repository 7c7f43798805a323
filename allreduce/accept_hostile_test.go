package allreduce

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire/wiretest"
)

// Streams of strangers, however many, must not keep the group's own streams out.
func TestStrangersDoNotKeepTheGroupOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGroup(t, testParams(40, 4), 2, rand.New(rand.NewPCG(9, 9)), func(c *Config) {
			c.Known = func(p slot.PeerID) bool { return p == peerName(0) || p == peerName(1) }
		})
		g.net.silent = peerName(1)
		g.start(0)
		var wg sync.WaitGroup
		for i := range 100 {
			for range 16 {
				here, _ := wiretest.Pipe(1)
				wg.Go(func() { _ = g.engines[0].Accept(slot.PeerID(fmt.Sprint("stranger", i)), here) })
			}
		}
		synctest.Wait()
		if err := g.engines[0].enter(peerName(1), true); err != nil {
			t.Errorf("a contributor: %v", err)
		} else {
			g.engines[0].leave(peerName(1), true)
			g.engines[0].wg.Done()
		}
		g.close()
		wg.Wait()
	})
}
