package cli

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/bridge/peer"
	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
)

// printing is a participant whose report is written to out, as JSON.
func printing() (p *participant, out *strings.Builder) {
	cmd, out := &cobra.Command{}, &strings.Builder{}
	cmd.SetOut(out)
	cmd.SetErr(&strings.Builder{})
	s := peer.NewSettings()
	s.JSON = true
	return newParticipant(cmd, s, launch{}), out
}

// leavingLate is a node that sees the run's end while it leaves.
type leavingLate struct {
	ending
	sees func()
}

func (l *leavingLate) Leave(ctx context.Context) error {
	l.sees()
	return l.ending.Leave(ctx)
}

// A peer that is stopped between the last slot and its closing record waits for that. It has ended
// then as the run has, and has not left it: its report said so, with `ended` false.
func TestAPeerThatLeavesAtTheEndHasEnded(t *testing.T) {
	for _, c := range []struct {
		name   string
		before p2pdiloco.Phase
		ends   []string // run.final, as each says; "": run.switched
		want   p2pdiloco.Phase
		err    error
	}{
		{"of the run", p2pdiloco.PhaseRunning, []string{"run"}, p2pdiloco.PhaseEnded, nil},
		{"of the run, without a quorum before", p2pdiloco.PhasePaused, []string{"run"}, p2pdiloco.PhaseEnded, nil},
		{
			"of a provisional chain", p2pdiloco.PhaseRunning,
			[]string{"provisional"},
			p2pdiloco.PhaseEndedProvisional, ErrProvisional,
		},
		{"of a branch that is given up", p2pdiloco.PhaseRunning, []string{"provisional", ""}, statusLeft, nil},
		{"it does not come", p2pdiloco.PhaseRunning, nil, statusLeft, nil},
		{"the node has failed", p2pdiloco.PhaseClosed, []string{"run"}, statusLeft, nil},
	} {
		p, out := printing()
		see := func() {
			for _, as := range c.ends {
				e := p2pdiloco.Event{Name: "run.switched"}
				if as != "" {
					e = p2pdiloco.Event{Name: "run.final", Fields: map[string]any{"ends_as": as}}
				}
				p.onEvent(e)
			}
		}
		node := &leavingLate{ending: ending{phase: c.before}, sees: see}
		if c.before == p2pdiloco.PhaseClosed {
			see()
		}
		err := p.finish(node, node)
		var r eventlog.Peer
		if unread := errors.Join(p.end(outputTime), json.Unmarshal([]byte(out.String()), &r)); unread != nil {
			t.Fatal(unread)
		}
		if r.Status != string(c.want) || r.Ended != (c.want == p2pdiloco.PhaseEnded) || !errors.Is(err, c.err) {
			t.Errorf("%s: ended %v, status %q, %v", c.name, r.Ended, r.Status, err)
		}
	}
}

// The same with real nodes: one of three is stopped as soon as it has applied the last slot. It is
// a matter of chance whether its trainer was given the parameters by then.
func TestANodeThatLeavesAtTheEndHasEnded(t *testing.T) {
	nodetest.Once(t, 3, 3, func(s *nodetest.Swarm) {
		p, out := printing()
		defer p.end(outputTime) //nolint:errcheck // below, where the test comes so far
		peer, applied := s.Peers[1], make(chan struct{})
		peer.OnEvent = func(e p2pdiloco.Event) {
			p.onEvent(e)
			if at, _ := e.Fields["slot"].(uint64); e.Name == "slot.applied" && at == 3 {
				close(applied)
			}
		}
		peer.Main = func(ctx context.Context, n *p2pdiloco.Node) error {
			running, stop := context.WithCancel(ctx)
			defer stop()
			go func() {
				<-applied
				stop()
			}()
			if err := n.Run(running); !errors.Is(err, context.Canceled) {
				t.Errorf("Run was to be ended by its context: %v", err)
			}
			if got := n.Status().Phase; got != p2pdiloco.PhaseRunning {
				t.Errorf("it is %s when it leaves: the test is about nothing", got)
			}
			return p.finish(n, n)
		}
		s.Start(s.Peers...)
		s.Finish(time.Minute, s.But(peer)...)
		err, r := s.Outcome(peer, time.After(time.Minute)), eventlog.Peer{}
		if err := errors.Join(err, p.end(outputTime), json.Unmarshal([]byte(out.String()), &r)); err != nil {
			t.Fatal(err)
		}
		if !r.Ended || r.Status != string(p2pdiloco.PhaseEnded) || r.Slot != 3 {
			t.Errorf("ended %v, status %q, slot %d", r.Ended, r.Status, r.Slot)
		}
	})
}
