package bench

import (
	"context"
	"fmt"
	"net/rpc"
	"path/filepath"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/lab"
)

// RunStep measures all cases of cfg, and OpenMPI beside them, in turns.
func RunStep(ctx context.Context, cfg StepConfig, r *Report) (err error) {
	first := cfg.Cases[0]
	var mpi MPI
	if cfg.Against != "" {
		if mpi, err = OpenMPI(ctx, cfg.Dir); err != nil {
			return err
		}
	}
	r.Say("links", "%s", first.Links())
	for number, slots := range cfg.turns() {
		for _, c := range cfg.Cases {
			if err := cfg.measure(ctx, &turn{Case: c, report: r, number: number, slots: slots}); err != nil {
				return err
			}
		}
		if mpi != "" {
			rounds, err := mpi.Reduce(ctx, first.Peers, first.elements(), aloneWarmUps+slots)
			if err != nil {
				return err
			}
			for _, x := range rounds[aloneWarmUps:] {
				addRound(r, number, first.nameOf("MPI"), x)
				r.Add(number, first.nameOf("MPI"), "reduce-sec", x.Seconds)
			}
		}
	}
	cfg.compare(r)
	return nil
}

// turn is the turn of a case: one swarm.
type turn struct {
	Case
	report *Report
	number int    // from 0
	slots  uint64 // that count
	floor  floor  // if peers have a ledger
	ctx    context.Context
	peers  []calledPeer
	orders []Order
}

// limit is the time that a swarm may take: generous, so that a busy machine stays within.
func (t *turn) limit() time.Duration {
	transfer := time.Duration(t.Bytes) * time.Duration(t.Peers) * 100 * time.Nanosecond
	return 3*time.Minute + time.Duration(warmUps+t.slots+after)*(10*time.Second+50*t.RTT+transfer)
}

// measure has a swarm do the slots of a turn.
func (cfg StepConfig) measure(ctx context.Context, t *turn) (err error) {
	if !t.Alone {
		if t.floor, err = t.Case.floor(cfg.Dir, cpuSeconds); err != nil {
			return err
		}
	}
	return t.Run(ctx, cfg.Setting, t.name(), t.limit(), func(ctx context.Context, s Swarm) error {
		t.ctx = ctx
		transports := []string{"tcp", "quic"}
		if t.Transport != "" {
			transports = []string{t.Transport}
		}
		run := lab.RunName("bench")
		for i := range t.Peers {
			data := filepath.Join(s.Dir, fmt.Sprintf("peer-%d", i+1))
			p, err := startPeer(s, i+1, filepath.Base(data))
			if err != nil {
				return err
			}
			t.peers = append(t.peers, p)
			t.orders = append(t.orders,
				Order{t.Case, run, t.slots, i + 1, lab.Listen(s.Testbed, i+1, transports...), s.Boot, data})
		}
		do := t.steps
		if t.Alone {
			do = t.reductions
		}
		return do()
	})
}

// calledPeer is a process that does what it is called for.
type calledPeer struct {
	*lab.Process
	*rpc.Client
}

func startPeer(s Swarm, site int, name string) (p calledPeer, err error) {
	cmd := s.Command(site, HiddenCommand)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return p, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return p, err
	}
	p.Client = rpc.NewClient(pipe{stdout, stdin})
	p.Process, err = s.Start(cmd, s.Dir, name)
	return p, err
}

// ask calls a method of all peers at once, with what of says for each, and returns their answers.
func ask[A any](t *turn, method string, of func(i int) any) ([]A, error) {
	answers, done := make([]A, len(t.peers)), make(chan *rpc.Call, len(t.peers))
	var calls []*rpc.Call
	for i, p := range t.peers {
		calls = append(calls, p.Go(method, of(i), &answers[i], done))
	}
	for range t.peers {
		select {
		case call := <-done:
			if call.Error != nil {
				i := slices.Index(calls, call)
				return nil, fmt.Errorf("peer %d: %w; the end of its log:\n%s", i+1, call.Error,
					lab.Tail(t.peers[i].Log))
			}
		case <-t.ctx.Done():
			return nil, context.Cause(t.ctx)
		}
	}
	return answers, nil
}
