package p2pdiloco

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership"
)

// The chaos preset is slower in all than lan: the simulation's time costs nothing, but its announcements do.
const presetChaos = "chaos"

func init() {
	presets[presetChaos] = preset{
		ledger: membership.Timing{
			Alive: 1500 * time.Millisecond, Beat: time.Second, Patience: 3 * time.Second, Lost: 4 * time.Second,
			MinGrace: 3 * time.Second, GraceFactor: 3, Straggler: 10 * time.Second,
			FoundAfter: 1500 * time.Millisecond, ForkAfter: 5 * time.Second, Linger: 5 * time.Second, Retry: time.Second,
		},
		discovery: 2 * time.Second, stall: 3 * time.Second, hello: 500 * time.Millisecond,
	}
}

// stuckAfter is how long a chain may stand still while nothing hinders a quorum: far above the sum of all patience.
const stuckAfter = 90 * time.Second

// chaos is one seed's run: a swarm, what is wrong with whom, and the story so far.
type chaos struct {
	s       *swarm
	audit   *audit
	rand    *rand.Rand
	began   time.Time
	trouble map[*simPeer]string        // what is wrong with a peer
	told    map[*simPeer]chan struct{} // closed to make it leave
	links   int                        // troubles of links that go on
	undo    []remedy
	story   []string
	most    int // peers at most
}

// remedy ends a trouble when its time has come.
type remedy struct {
	at   time.Time
	what string
	do   func()
	down *simPeer // that it starts again, if it does
}

func (c *chaos) note(format string, args ...any) {
	c.story = append(c.story, fmt.Sprintf("%8.2fs: ", time.Since(c.began).Seconds())+fmt.Sprintf(format, args...))
}

// start starts a peer's process. It serves after the run's end, and leaves when told.
func (c *chaos) start(p *simPeer) {
	told := make(chan struct{})
	c.told[p] = told
	p.config = func(cfg *Config) { cfg.Preset = presetChaos }
	p.drive = func(ctx context.Context, n *Node) error {
		running, stop := context.WithCancel(ctx)
		defer stop()
		go func() {
			select {
			case <-told:
				stop()
			case <-running.Done():
			}
		}()
		if err := stay(running, n); ctx.Err() != nil || !errors.Is(err, context.Canceled) && err != nil {
			return err
		}
		return n.Leave(ctx)
	}
	c.s.start(p)
}

// end ends a peer's process.
func (c *chaos) end(p *simPeer) {
	c.audit.look(p)
	c.s.stop(p)
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
	for _, p := range c.s.peers {
		if len(p.done) == 0 {
			continue
		}
		err := <-p.done
		p.done <- err
		if err != nil || c.trouble[p] != leaves {
			c.s.t.Fatalf("host %d (%s) ended by itself: %v", p.host, c.trouble[p], err)
		}
	}
	if !c.quorumUp() || c.over() {
		c.audit.rose = time.Now()
	}
	if time.Since(c.audit.rose) > stuckAfter {
		c.s.t.Fatalf("no record for %v, and nothing hinders a quorum\n%s", stuckAfter, c.s)
	}
}

// quorumUp says whether nothing is wrong with a quorum of the newest members, nor with any link.
func (c *chaos) quorumUp() bool {
	return c.links == 0 && slot.Quorum(c.audit.best.Members, func(m slot.Member) bool { return c.fine(m) })
}

// fine says whether a member is up, in the incarnation that is listed, and nothing is wrong with it.
func (c *chaos) fine(m slot.Member) bool {
	p := c.s.byID(m.Peer)
	n := p.node.Load()
	return c.trouble[p] == "" && n != nil && n.driver.Incarnation() == m.Incarnation
}

// over says whether the run has ended.
func (c *chaos) over() bool {
	return c.audit.best.Slot >= c.s.spec.LastSlot() && c.audit.best.Kind == slot.Members
}

// heal ends all trouble, but leaves some dead that nobody needs.
func (c *chaos) heal() {
	undo := c.undo
	c.undo = nil
	for _, r := range undo {
		if r.down != nil && c.rand.IntN(3) == 0 && c.spare() {
			c.note("not: %s", r.what)
			if r.down.done != nil { // it leaves, and may not have yet
				c.end(r.down)
			}
			continue
		}
		c.note("%s", r.what)
		r.do()
	}
}

// spare says whether the newest members have a quorum among those that nothing is wrong with.
func (c *chaos) spare() bool {
	return slot.Quorum(c.audit.best.Members, c.fine)
}

// finish waits until the run has ended for all that live. Who lingers no longer may have ended before the closing record came, and
// still takes it.
func (c *chaos) finish(limit time.Duration) {
	began := time.Now()
	alive := func(p *simPeer) bool { return p.done != nil }
	for ; ; c.pass(100 * time.Millisecond) {
		waiting := slices.ContainsFunc(c.s.peers, func(p *simPeer) bool {
			n := p.node.Load()
			return alive(p) && (n == nil || !n.driver.View().Done || n.driver.View().Tip.Kind != slot.Members)
		})
		if !waiting {
			break
		}
		if time.Since(began) > limit {
			c.s.t.Fatalf("%v after all was well again the run has not ended everywhere\n%s", limit, c.s)
		}
	}
	c.audit.finished(slices.DeleteFunc(slices.Clone(c.s.peers), func(p *simPeer) bool { return !alive(p) }))
	c.audit.streams()
}

// chaosRun is one run of TestChaos: SEED/PEERS/MODE.
type chaosRun struct {
	seed, peers int
	mode        string
}

func (r chaosRun) String() string { return fmt.Sprintf("%d/%d/%s", r.seed, r.peers, r.mode) }

// chaosRuns are the runs to make. P2PDILOCO_TEST_CHAOS=N makes N larger ones, and P2PDILOCO_TEST_CHAOS=SEED/PEERS/MODE the one.
func chaosRuns() (runs []chaosRun) {
	few := []int{8, 8, 16, 8, 8, 12, 20} // of mode sync
	if raced {
		few = few[:2]
	}
	many := []int{16, 16, 16, 16, 16, 16, 16, 24, 24, 32}
	var one chaosRun
	if _, err := fmt.Sscanf(strings.ReplaceAll(os.Getenv("P2PDILOCO_TEST_CHAOS"), "/", " "), "%d %d %s", &one.seed, &one.peers, &one.mode); err == nil {
		return []chaosRun{one}
	}
	n, err := strconv.Atoi(os.Getenv("P2PDILOCO_TEST_CHAOS"))
	if err != nil {
		for i, peers := range few {
			runs = append(runs, chaosRun{i, peers, ModeSync})
		}
		for _, mode := range everyMode()[1:] {
			runs = append(runs, chaosRun{len(runs), 8, mode})
		}
		return runs
	}
	for i := range n {
		runs = append(runs, chaosRun{i, many[i%len(many)], everyMode()[i%len(everyMode())]})
	}
	return runs
}

// everyMode lists the modes that a run may have, sync first.
func everyMode() []string {
	return slices.DeleteFunc([]string{ModeSync, ModeDelayed, ModeEager, ModeStreaming, "async"}, func(mode string) bool {
		return Spec{Name: "x", Mode: mode}.Validate() != nil
	})
}

// chaosSpec is of a run long enough that no side of a partition is at the end, each on a branch of its own, before the partition is over.
func chaosSpec(mode string) Spec {
	spec := simSpec(24, 3)
	switch spec.Mode = mode; mode {
	case ModeSync:
		spec.Rounds = 12
	case ModeStreaming: // two slots a round
		spec.Fragments = 2
	}
	return spec
}

// Whatever happens to whom, no two peers ever hold different records or states at the same place, nothing certified is lost,
// the run gets on while a quorum is up, and it ends for everybody.
func TestChaos(t *testing.T) {
	for _, run := range chaosRuns() {
		t.Run(run.String(), func(t *testing.T) {
			inSim(t, 10*time.Millisecond, chaosSpec(run.mode), run.peers, func(s *swarm) { runChaos(s, run) })
		})
	}
}

func runChaos(s *swarm, run chaosRun) {
	peers := run.peers
	c := &chaos{
		s: s, audit: newAudit(s), rand: rand.New(rand.NewPCG(uint64(run.seed), 1)), began: time.Now(), trouble: make(map[*simPeer]string),
		told: make(map[*simPeer]chan struct{}), most: peers + peers/4,
	}
	defer func() {
		if c.note("end"); s.t.Failed() || testing.Verbose() {
			s.t.Logf("%s\nreplay the same faults: P2PDILOCO_TEST_CHAOS=%s go test -run 'TestChaos$' -v .", strings.Join(c.story, "\n"), run)
		}
		for _, p := range s.peers {
			s.thaw(p)
		}
	}()
	s.pace(25 * time.Millisecond)
	for _, p := range s.peers {
		c.start(p)
	}
	s.reach(1, s.peers...)
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
