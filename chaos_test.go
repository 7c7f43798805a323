package p2pdiloco

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

// chaos does random things to a swarm's peers.
type chaos struct {
	s    *swarm
	rand *rand.Rand
	out  map[*simPeer]bool // cut off
}

// strike does one thing to one peer: it vanishes, crashes, is cut off, comes back, or a new one arrives.
func (c *chaos) strike() string {
	p := c.s.peers[c.rand.IntN(len(c.s.peers))]
	switch what := c.rand.IntN(8); {
	case p.done == nil:
		delete(c.out, p)
		c.s.restart(p)
		return fmt.Sprintf("host %d restarts", p.host)
	case c.out[p]:
		delete(c.out, p)
		c.s.net.Rejoin(p.host)
		return fmt.Sprintf("host %d is reached again", p.host)
	case what < 2:
		c.s.kill(p)
		return fmt.Sprintf("host %d vanishes", p.host)
	case what < 4:
		c.s.stop(p)
		return fmt.Sprintf("host %d crashes", p.host)
	case what < 6:
		c.out[p] = true
		c.s.net.Isolate(p.host)
		return fmt.Sprintf("host %d is cut off", p.host)
	case what < 7 && len(c.s.peers) < 7:
		q := c.s.add()
		q.drive = stay
		c.s.start(q)
		return fmt.Sprintf("host %d arrives", q.host)
	case p.node.Load() != nil:
		q := c.s.peers[c.rand.IntN(len(c.s.peers))]
		c.s.net.CutOneWay(p.host, q.host)
		return fmt.Sprintf("host %d is not heard by host %d", p.host, q.host)
	}
	return "nothing"
}

// heal ends all trouble.
func (c *chaos) heal() {
	for _, p := range c.s.peers {
		c.s.net.Rejoin(p.host)
	}
	for _, p := range c.s.peers {
		if p.done == nil {
			c.s.start(p)
		}
	}
}

// Whatever happens to whom, no two peers ever hold different states after the same slot, and once all is well again the run ends
// for everybody. P2PDILOCO_TEST_CHAOS=N tries N seeds.
func TestChaos(t *testing.T) {
	seeds := 4
	if n, err := strconv.Atoi(os.Getenv("P2PDILOCO_TEST_CHAOS")); err == nil {
		seeds = n
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inSim(t, 10*time.Millisecond, simSpec(20, 3), 4, func(s *swarm) {
				c := &chaos{s, rand.New(rand.NewPCG(uint64(seed), 1)), map[*simPeer]bool{}}
				for _, p := range s.peers {
					p.drive = stay
				}
				s.start(s.peers...)
				s.reach(1, s.peers...)
				var story []string
				began := time.Now()
				for range 14 {
					time.Sleep(time.Duration(50+c.rand.IntN(1500)) * time.Millisecond)
					story = append(story, fmt.Sprintf("%v: %s", time.Since(began), c.strike()))
				}
				c.heal()
				defer func() {
					if s.t.Failed() {
						for _, line := range story {
							s.t.Log(line)
						}
					}
				}()
				s.until(10*time.Minute, "ended everywhere", func() bool {
					for _, p := range s.peers {
						if !p.had("run.done") {
							return false
						}
					}
					return true
				})
				s.equal()
				s.reach(s.spec.Rounds, s.peers...)
			})
		})
	}
}
