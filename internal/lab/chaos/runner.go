package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
	"github.com/p2pdiloco/p2pdiloco/internal/lab"
)

const tick = 10 * time.Millisecond

// Bounds on waiting. They are for what takes a few seconds.
const (
	stuckAfter   = 60 * time.Second // no slot, no record
	returnWithin = 90 * time.Second // a peer that was hurt takes part again
)

// errHang ends a run that makes no progress although it could.
var errHang = errors.New("no progress")

// runner runs one swarm through its schedule. All is its one loop's own, but for the answers to
// status questions.
type runner struct {
	cfg     Config
	dir     string
	name    string // of the run
	hostile int    // peers among its first members that are not among nodes
	// the other peers start once the first one has founded the run
	oneFounds bool
	testbed   lab.Testbed
	links     network // the testbed, if links can be changed
	swarm     *lab.Swarm
	screen    *lab.Notes

	boot     lab.Boot
	bootDown bool // it was killed
	nodes    []*node

	faults  []Fault // the whole schedule
	pending []Fault
	active  []*fault
	done    []Injected

	ledger ledger
	gate   gate
	ended  findings      // processes that ended though nobody asked them to
	odd    findings      // faults of which not the right thing came
	fine   findings      // what else is to say of faults
	lead   func() error  // with hostile peers, and in a soak, what else the loop does
	limit  func() uint64 // of them, up to where peers may train
	soak   *soak         // nil: the run is over after a number of slots

	polls   sync.WaitGroup // requests to status APIs that are under way
	polled  time.Time
	answers chan func() // take in what came back
}

// The namespaces' names begin with labName, so that a later run removes those of a crashed one.
const labName = "p2pchaos"

// open makes the network, of namespaces if a fault needs to change links, and the swarm.
func (r *runner) open(ctx context.Context) (err error) {
	r.testbed = lab.Loopback{}
	if some := Needing(r.cfg.Kinds, Links); len(some) > 0 {
		sites := 1 + r.cfg.Peers
		for _, f := range r.pending {
			if f.Kind.row().pick == newcomer {
				sites++
			}
		}
		l, err := lab.New(ctx, lab.Config{Nodes: sites, Name: labName, Link: r.cfg.link()})
		if err != nil {
			return fmt.Errorf("%w (or leave out the faults %v)", err, some)
		}
		r.links, r.testbed = l, l
	}
	if r.swarm, err = lab.NewSwarm(r.cfg.Setting, r.testbed); err != nil {
		return errors.Join(err, r.testbed.Close())
	}
	return nil
}

// CanLinks says why links cannot be changed here, or nil.
func CanLinks(ctx context.Context) error {
	l, err := lab.New(ctx, lab.Config{Nodes: 1, Name: labName + "try"})
	if err != nil {
		return err
	}
	return l.Close()
}

// run starts the swarm and returns when all peers have finished. An error means that they have not.
func (r *runner) run(ctx context.Context) error {
	if err := r.start(ctx); err != nil {
		return err
	}
	r.ledger.progress = time.Now()
	for {
		for _, do := range []func() error{r.read, r.reap, r.lead, r.advance, r.openGate} {
			if do == nil {
				continue
			}
			if err := do(); err != nil {
				return err
			}
		}
		r.ask(ctx)
		if r.isOver() {
			return nil
		}
		if err := cmp.Or(r.stuck(), r.sleep(ctx)); err != nil {
			return err
		}
	}
}

// isOver says whether all peers have finished, or hold the last state of a soak.
func (r *runner) isOver() bool {
	if r.soak != nil {
		return r.soak.ends != nil
	}
	return len(r.pending)+len(r.active) == 0 && !slices.ContainsFunc(r.nodes, func(p *node) bool { return !p.gone })
}

func (r *runner) stuck() error {
	if r.waiting() {
		r.ledger.progress = time.Now() // faults have bounds of their own
	}
	if most := r.cfg.stretch(stuckAfter); time.Since(r.ledger.progress) > most {
		return fmt.Errorf("%w: no record since height %d (slot %d) for %v", errHang, r.ledger.height, r.ledger.slot,
			most)
	}
	return nil
}

// waiting says whether the swarm waits at its gate for somebody to come back.
func (r *runner) waiting() bool { return r.ledger.slot >= r.gate.slot && r.gate.slot < r.cfg.Slots }

func (r *runner) sleep(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(tick):
		return nil
	}
}

// read takes in what the peers' logs have new.
func (r *runner) read() (err error) {
	for _, p := range r.nodes {
		err = errors.Join(err, p.Read(func(l eventlog.Line) {
			if slices.Contains(useful, l.Event) {
				p.lines = append(p.lines, l)
				r.ledger.observe(l)
			}
		}))
	}
	return err
}

// reap notices processes that have ended. One that did by itself ends the run.
func (r *runner) reap() error {
	for _, p := range r.nodes {
		if p.gone {
			continue
		}
		code, ended := p.Exit()
		if !ended {
			continue
		}
		rep, printed := p.Report()
		p.bury()
		switch {
		case p.asked && (code == 0 || code == -1):
		case code == 1 && p.hurt != nil && p.hurt.doing("full") && strings.Contains(lab.Tail(p.Log), "no space left"):
		case !p.asked && code == 0 && printed && finished(rep):
		default:
			r.ended.add("peer %d (pid %d) ended by itself with status %d; the end of its log:\n%s", p.n, p.PID(), code,
				lab.Tail(p.Log))
		}
	}
	if _, ended := r.boot.Exit(); ended && !r.bootDown {
		r.ended.add("the bootstrap node ended by itself; the end of its log:\n%s", lab.Tail(r.boot.Log))
	}
	if len(r.ended) > 0 {
		return errors.New(r.ended[0])
	}
	return nil
}

// close ends all processes.
func (r *runner) close() error {
	for _, f := range r.active {
		f.calm()
	}
	for _, p := range r.nodes {
		if p.Process != nil {
			p.thaw()
		}
	}
	r.swarm.Stop()
	r.polls.Wait()
	err := r.read()
	for _, f := range r.active {
		err = errors.Join(err, f.disk("unmount"))
	}
	r.swarm.Close()
	return errors.Join(err, r.testbed.Close())
}
