package reducebench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/p2pdiloco/p2pdiloco/internal/lab/bench"
	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
)

// HiddenCommand is the command of this program that calls Serve.
const HiddenCommand = "bench-allreduce-peer"

// member is a peer's process, seen from outside.
type member struct {
	proc    *swarm.Process
	orders  io.WriteCloser
	answers *bufio.Reader
	reading *os.File
}

// startMember starts one. StopAll ends it, and close frees what is left.
func startMember(l *swarm.Launcher, p bench.Place, site int, program, dir, name string) (*member, error) {
	cmd := p.Command(site, program, HiddenCommand)
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
	proc, err := l.StartCommand(cmd, dir, name)
	_ = w.Close() // the child has its own
	if err != nil {
		return nil, errors.Join(err, orders.Close(), r.Close())
	}
	return &member{proc, orders, bufio.NewReaderSize(r, 64<<10), r}, nil
}

func (m *member) tell(o order) error { return json.NewEncoder(m.orders).Encode(o) }

// hear waits for the answer to the last order.
func (m *member) hear() (a answer, err error) {
	line, err := readLine(m.answers)
	if err != nil {
		<-m.proc.Ended
		return a, fmt.Errorf("a peer's process ended; the end of its log:\n%s", swarm.Tail(m.proc.Log))
	}
	if err := json.Unmarshal(line, &a); err != nil {
		return a, err
	}
	if a.Error != "" {
		return a, errors.New(a.Error)
	}
	return a, nil
}

func (m *member) close() {
	_ = m.orders.Close()
	_ = m.reading.Close()
}

// swarmOf is a case's peers: a contender.
type swarmOf struct {
	cfg      Config
	name     string
	launcher *swarm.Launcher
	members  []*member
	round    uint64
	tally    tally
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
func openSwarm(ctx context.Context, cfg Config, name string, p bench.Place) (s *swarmOf, err error) {
	s = &swarmOf{cfg: cfg, name: name, launcher: swarm.NewLauncher()}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	var ids, addrs []string
	for i := range cfg.Peers {
		m, err := startMember(s.launcher, p, i, cfg.Executable, cfg.Dir, fmt.Sprintf("%s-%d", name, i))
		if err != nil {
			return s, err
		}
		s.members = append(s.members, m)
		o := order{
			Op: opStart, Case: cfg.Case, Index: i, Listen: p.Listen(i, cfg.Transport), Bootstrap: addrs,
			Profile: profilePath(cfg.Profile, name, i),
		}
		a, err := s.ask(ctx, m, o)
		if err != nil {
			return s, err
		}
		ids, addrs = append(ids, a.ID), append(addrs, a.Addrs...)
	}
	return s, s.prepare(ctx, ids)
}

func (s *swarmOf) prepare(ctx context.Context, ids []string) error {
	made, err := s.askAll(ctx, order{Op: opPrepare, IDs: ids})
	if err != nil {
		return err
	}
	var roots []string
	for _, a := range made {
		roots = append(roots, a.Root)
		s.tally.commit = max(s.tally.commit, a.Commit)
		s.tally.hash += a.Hash / float64(s.cfg.Peers)
	}
	_, err = s.askAll(ctx, order{Op: opPlan, Roots: roots})
	return err
}

// Round implements contender.
func (s *swarmOf) Round(ctx context.Context, measured bool) (r sample, err error) {
	s.round++
	times, err := s.askAll(ctx, order{Op: opGo, Round: s.round, Measured: measured})
	if err != nil {
		return r, err
	}
	ends, err := s.askAll(ctx, order{Op: opEnd, Check: s.round == 1})
	if err != nil {
		return r, err
	}
	for i, a := range ends {
		r.seconds = max(r.seconds, times[i].Seconds)
		r.cpu += a.CPU
		r.sent += a.Sent
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
	all, err := s.askAll(ctx, order{Op: opFinish})
	for _, a := range all {
		s.tally.peak = max(s.tally.peak, a.Peak)
	}
	return err
}

// askAll gives all peers an order at once and returns their answers.
func (s *swarmOf) askAll(ctx context.Context, o order) (all []answer, err error) {
	var errs []error
	for _, m := range s.members {
		errs = append(errs, m.tell(o))
	}
	stop := s.interruptible(ctx)
	defer stop()
	for i, m := range s.members {
		a, err := m.hear()
		if err != nil {
			errs = append(errs, fmt.Errorf("%s, peer %d: %s: %w", s.name, i, o.Op, err))
			break // the others may wait for it
		}
		all = append(all, a)
	}
	return all, errors.Join(append(errs, ctx.Err())...)
}

func (s *swarmOf) ask(ctx context.Context, m *member, o order) (answer, error) {
	if err := m.tell(o); err != nil {
		return answer{}, err
	}
	stop := s.interruptible(ctx)
	defer stop()
	a, err := m.hear()
	return a, errors.Join(err, ctx.Err())
}

// interruptible kills the peers when ctx ends, so that nothing waits for their answers.
func (s *swarmOf) interruptible(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() {
		for _, m := range s.members {
			m.proc.Signal(os.Kill)
		}
	})
}

// Close ends all processes.
func (s *swarmOf) Close() {
	var running []*swarm.Process
	for _, m := range s.members {
		m.close()
		running = append(running, m.proc)
	}
	swarm.StopAll(running, nil)
	s.launcher.Close()
}
