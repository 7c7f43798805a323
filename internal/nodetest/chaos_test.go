package nodetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/node/edge"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
	"github.com/p2pdiloco/p2pdiloco/membership"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
)

// slowTiming is slower in all than preset lan: the simulation's time costs nothing, but its
// announcements do.
func slowTiming(h *edge.Hooks) {
	h.Timing = func(t *edge.Preset) {
		*t = edge.Preset{
			Ledger: membership.Timing{
				Alive: 1500 * time.Millisecond, Beat: time.Second, Patience: 3 * time.Second, Lost: 4 * time.Second,
				MinGrace: 3 * time.Second, GraceFactor: 3, Straggler: 10 * time.Second,
				FoundAfter: 1500 * time.Millisecond, ForkAfter: 5 * time.Second, Linger: 5 * time.Second,
				Retry: time.Second,
			},
			Discovery: 2 * time.Second, Stall: 3 * time.Second, Hello: 500 * time.Millisecond,
		}
	}
}

// stuckAfter is how long a chain may stand still while nothing hinders a quorum: far above the sum
// of all patience.
const stuckAfter = 90 * time.Second

// chaos is one seed's run: a swarm, what is wrong with each peer, and the story so far.
type chaos struct {
	s       *Swarm
	audit   *audit
	rand    *rand.Rand
	began   time.Time
	trouble map[*Peer]string        // what is wrong with a peer
	told    map[*Peer]chan struct{} // closed to make it leave
	links   int                     // troubles of links that go on
	undo    []remedy
	story   []string
	most    int // peers at most
}

// remedy ends a trouble when its time has come.
type remedy struct {
	at   time.Time
	what string
	do   func()
	down *Peer // that it starts again, if it does
}

func (c *chaos) note(format string, args ...any) {
	c.story = append(c.story, fmt.Sprintf("%8.2fs: ", time.Since(c.began).Seconds())+fmt.Sprintf(format, args...))
}

// start starts a peer's process. It serves after the run's end, and leaves when told.
func (c *chaos) start(p *Peer) {
	told := make(chan struct{})
	c.told[p] = told
	p.Hooks = slowTiming
	p.Main = Stay
	LeaveWhen(told, p)
	c.s.Start(p)
}

// end ends a peer's process.
func (c *chaos) end(p *Peer) {
	c.audit.look(p)
	c.s.Stop(p)
	delete(c.audit.seen, p)
}

// pass lets time pass, watching.
func (c *chaos) pass(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		time.Sleep(50 * time.Millisecond)
		c.audit.all()
		c.watch()
		for i := 0; i < len(c.undo); i++ {
			if r := c.undo[i]; !time.Now().Before(r.at) {
				c.undo = slices.Delete(c.undo, i, i+1)
				c.note("%s", r.what)
				r.do()
				i--
			}
		}
	}
}

// watch checks that no process ends by itself, and that the run gets on.
func (c *chaos) watch() {
	for _, p := range c.s.Peers {
		if len(p.Done) == 0 {
			continue
		}
		err := <-p.Done
		p.Done <- err
		if err != nil || c.trouble[p] != leaves {
			c.s.T.Fatalf("host %d (%s) ended by itself: %v", p.Host, c.trouble[p], err)
		}
	}
	if !c.quorumUp() || c.over() {
		c.audit.rose = time.Now()
	}
	if time.Since(c.audit.rose) > stuckAfter {
		c.s.T.Fatalf("no record for %v, and nothing hinders a quorum\n%s", stuckAfter, c.s)
	}
}

// quorumUp says whether nothing is wrong with a quorum of the newest electors, nor with any link.
func (c *chaos) quorumUp() bool {
	return c.links == 0 && c.spare()
}

// fine says whether a member is up, in the incarnation that is listed, and nothing is wrong with
// it.
func (c *chaos) fine(m slot.Member) bool {
	p := c.s.ByID(m.Peer)
	l := p.Ledger()
	return c.trouble[p] == "" && l != nil && l.Incarnation() == m.Incarnation
}

// over says whether the run has ended.
func (c *chaos) over() bool {
	return c.audit.best.Slot >= c.s.Spec.LastSlot() && c.audit.best.Kind == slot.Members
}

// heal ends all trouble, but leaves some dead that nobody needs.
func (c *chaos) heal() {
	undo := c.undo
	c.undo = nil
	for _, r := range undo {
		if r.down != nil && c.rand.IntN(3) == 0 && c.spare() {
			c.note("not: %s", r.what)
			if r.down.Done != nil { // it leaves, and may not have yet
				c.end(r.down)
			}
			continue
		}
		c.note("%s", r.what)
		r.do()
	}
}

// spare says whether the newest electors have a quorum among those that nothing is wrong with.
func (c *chaos) spare() bool {
	rules := chain.Rules{Byzantine: c.s.Spec.Settled().Byzantine()}
	return rules.Quorum(c.audit.best.Electors(), c.fine)
}

// finish waits until the run has ended for all that live. A peer that lingers no longer may have
// ended before the closing record came, and still takes it.
func (c *chaos) finish(limit time.Duration) {
	began := time.Now()
	alive := func(p *Peer) bool { return p.Done != nil }
	for ; ; c.pass(100 * time.Millisecond) {
		waiting := slices.ContainsFunc(c.s.Peers, func(p *Peer) bool {
			l := p.Ledger()
			return alive(p) && (l == nil || !l.View().Done || l.View().Tip.Kind != slot.Members)
		})
		if !waiting {
			break
		}
		if time.Since(began) > limit {
			c.s.T.Fatalf("%v after all was well again the run has not ended everywhere\n%s", limit, c.s)
		}
	}
	c.audit.finished(slices.DeleteFunc(slices.Clone(c.s.Peers), func(p *Peer) bool { return !alive(p) }))
}

const chaosPace = 25 * time.Millisecond // of an inner step

// Whatever happens to the peers, no two of them ever hold different records or states at the same
// place, nothing certified is lost, the run gets on while a quorum is up, and it ends for
// everybody. The run is so long that no side of a partition is at its end, each on a branch of its
// own, before the partition is over.
func TestChaos(t *testing.T) {
	for seed := range testutil.Choose(1, 1, 7) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			Play(t, Scenario{Slots: 24, Peers: 8, Start: 3, Pace: chaosPace}, func(s *Swarm) {
				runChaos(s, uint64(seed))
			})
		})
	}
}

func runChaos(s *Swarm, seed uint64) {
	c := &chaos{
		s: s, audit: newAudit(s), rand: rand.New(rand.NewPCG(seed, 1)), began: time.Now(),
		trouble: make(map[*Peer]string), told: make(map[*Peer]chan struct{}), most: len(s.Peers) * 5 / 4,
	}
	defer func() {
		if c.note("end"); s.T.Failed() || testing.Verbose() {
			s.T.Log(strings.Join(c.story, "\n"))
		}
		for _, p := range s.Peers {
			s.Thaw(p)
		}
	}()
	for _, p := range s.Peers {
		c.start(p)
	}
	s.Reach(1, s.Peers...)
	for range 12 {
		c.pass(time.Duration(50+c.rand.IntN(1200)) * time.Millisecond)
		c.strike()
	}
	for c.pass(2 * time.Second); c.links > 0; { // partitions last until each side knows of it
		c.pass(time.Second)
	}
	c.heal()
	c.finish(5 * time.Minute)
}
