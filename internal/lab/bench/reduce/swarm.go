package reduce

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/lab/bench"
	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
)

// HiddenCommand is the command of this program that calls Serve.
const HiddenCommand = "bench-allreduce-peer"

// member is a peer's process, seen from outside.
type member struct {
	proc    *swarm.Process
	orders  io.WriteCloser
	answers *os.File
	reader  *json.Decoder
}

// startMember starts one at a site.
func startMember(c *swarm.Swarm, site int, dir, name string) (*member, error) {
	cmd := c.Command(site, HiddenCommand)
	if cmd.Err != nil {
		return nil, cmd.Err
	}
	orders, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, orders.Close())
	}
	cmd.Stdout = w
	proc, err := c.Start(cmd, dir, name)
	_ = w.Close() // the child has its own
	if err != nil {
		return nil, errors.Join(err, orders.Close(), r.Close())
	}
	return &member{proc, orders, r, json.NewDecoder(r)}, nil
}

// hear waits for the answer to the last order.
func (m *member) hear() (a answer, err error) {
	if err := m.reader.Decode(&a); err != nil {
		<-m.proc.Ended
		return a, fmt.Errorf("a peer's process ended; the end of its log:\n%s", swarm.Tail(m.proc.Log))
	}
	if a.Error != "" {
		return a, errors.New(a.Error)
	}
	return a, nil
}

// swarmOf is a case's peers: a contender.
type swarmOf struct {
	cfg     Config
	name    string
	swarm   *swarm.Swarm
	members []*member
	round   uint64
	tally   tally
}

// tally has the results of the rounds so far, beside their times.
type tally struct {
	digest  string
	checked bool
	commit  float64 // seconds, the slowest peer's
	hash    float64 // CPU seconds a GB, mean
	peak    uint64
}

// openSwarm starts the peers of a case one after the other, each knowing those before it.
func openSwarm(ctx context.Context, cfg Config, name string, t swarm.Testbed) (s *swarmOf, err error) {
	s = &swarmOf{cfg: cfg, name: name}
	if s.swarm, err = swarm.New(cfg.Setting, t); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	var ids, addrs []string
	for i := range cfg.Members {
		m, err := startMember(s.swarm, i, cfg.Dir, fmt.Sprintf("%s-%d", name, i))
		if err != nil {
			return s, err
		}
		s.members = append(s.members, m)
		o := order{
			Op: opStart, Case: cfg.Case, Index: i, Listen: swarm.Listen(t, i, cfg.Transport), Bootstrap: addrs,
			Profile: bench.ProfilePath(cfg.Profile, fmt.Sprintf("%s-%d", name, i)),
		}
		a, err := s.ask(ctx, o, m)
		if err != nil {
			return s, err
		}
		ids, addrs = append(ids, a[0].ID), append(addrs, a[0].Addrs...)
	}
	return s, s.prepare(ctx, ids)
}

func (s *swarmOf) prepare(ctx context.Context, ids []string) error {
	made, err := s.ask(ctx, order{Op: opPrepare, IDs: ids}, s.members...)
	if err != nil {
		return err
	}
	var roots []string
	var norms []float64
	for _, a := range made {
		roots, norms = append(roots, a.Root), append(norms, a.NormSq)
		s.tally.commit = max(s.tally.commit, a.Commit)
		s.tally.hash += a.Hash / float64(s.cfg.Members)
	}
	_, err = s.ask(ctx, order{Op: opPlan, Roots: roots, Norms: norms}, s.members...)
	return err
}

// Round implements contender.
func (s *swarmOf) Round(ctx context.Context, measured bool) (r bench.Round, err error) {
	s.round++
	times, err := s.ask(ctx, order{Op: opGo, Round: s.round, Measured: measured}, s.members...)
	if err != nil {
		return r, err
	}
	ends, err := s.ask(ctx, order{Op: opEnd, Check: s.round == 1}, s.members...)
	if err != nil {
		return r, err
	}
	for i, a := range ends {
		r.Seconds = max(r.Seconds, times[i].Seconds)
		r.CPU += a.CPU
		r.Sent += float64(a.Sent)
		if s.tally.digest == "" {
			s.tally.digest = a.Digest
		}
		if a.Digest != s.tally.digest { // the contributions stay, and so must the outcome
			return r, fmt.Errorf("round %d: peer %d has another outcome than peer 0 in round 1", s.round, i)
		}
		s.tally.checked = s.tally.checked || a.Allowed > 0
	}
	return r, nil
}

// finish asks for the totals.
func (s *swarmOf) finish(ctx context.Context) error {
	all, err := s.ask(ctx, order{Op: opFinish}, s.members...)
	for _, a := range all {
		s.tally.peak = max(s.tally.peak, a.Peak)
	}
	return err
}

// ask gives peers an order at once and returns their answers. The end of ctx kills all peers, so
// that nothing waits for them.
func (s *swarmOf) ask(ctx context.Context, o order, members ...*member) (all []answer, err error) {
	var errs []error
	for _, m := range members {
		errs = append(errs, json.NewEncoder(m.orders).Encode(o))
	}
	stop := context.AfterFunc(ctx, func() {
		for _, m := range s.members {
			m.proc.Signal(os.Kill)
		}
	})
	defer stop()
	for _, m := range members {
		a, err := m.hear()
		if err != nil {
			errs = append(errs, fmt.Errorf("%s, peer %d: %s: %w", s.name, slices.Index(s.members, m), o.Op, err))
			break // the others may wait for it
		}
		all = append(all, a)
	}
	return all, errors.Join(append(errs, ctx.Err())...)
}

// Close ends all processes.
func (s *swarmOf) Close() {
	for _, m := range s.members {
		_, _ = m.orders.Close(), m.answers.Close()
	}
	s.swarm.Close()
}

// The parent sends lines of JSON to a peer's process on its stdin, and gets one line back for each
// on its stdout.

// Orders, in the order in which they come. opGo and opEnd come once a round.
const (
	opStart   = "start"   // make a network
	opPrepare = "prepare" // make the contribution, and be connected to all others
	opPlan    = "plan"    // know what all others offer
	opGo      = "go"      // reduce
	opEnd     = "end"     // all are done
	opFinish  = "finish"  // report the totals
)

type order struct {
	Op        string   `json:"op"`
	Case      Case     `json:"case"`      // start
	Index     int      `json:"index"`     // start: which peer this is, from 0
	Listen    []string `json:"listen"`    // start: multiaddrs
	Bootstrap []string `json:"bootstrap"` // start: multiaddrs of those that were started before
	Profile   string   `json:"profile"`   // start: file for a CPU profile; empty: none
	IDs       []string `json:"ids"`       // prepare: of all peers, by index
	Roots     []string `json:"roots"`     // plan: of all contributions, by index
	// plan: their squared norms
	Norms    []float64 `json:"norms"`
	Round    uint64    `json:"round"`    // go: counted from 1
	Measured bool      `json:"measured"` // go: the two rounds before are not
	Check    bool      `json:"check"`    // end: compare this peer's share with the reference
}

type answer struct {
	Error string   `json:"error,omitempty"`
	ID    string   `json:"id,omitempty"`    // start
	Addrs []string `json:"addrs,omitempty"` // start
	Root  string   `json:"root,omitempty"`  // prepare
	// prepare: the squared norm of the contribution
	NormSq float64 `json:"norm_sq,omitempty"`
	// prepare: seconds of checking and hashing the contribution
	Commit  float64 `json:"commit,omitempty"`
	Hash    float64 `json:"hash,omitempty"`    // prepare: CPU seconds of hashing a GB, alone
	Seconds float64 `json:"seconds,omitempty"` // go
	CPU     float64 `json:"cpu,omitempty"`     // end: seconds since go
	Sent    uint64  `json:"sent,omitempty"`    // end: bytes of streams
	Digest  string  `json:"digest,omitempty"`  // end: hash of the outcome
	Worst   float64 `json:"worst,omitempty"`   // end, checked: distance from the reference
	Allowed float64 `json:"allowed,omitempty"` // end, checked
	Peak    uint64  `json:"peak,omitempty"`    // finish: bytes of memory
}
