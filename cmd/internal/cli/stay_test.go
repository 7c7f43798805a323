package cli

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/bridge/peer"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
)

func init() { testutil.OneCPU() }

// staying is a participant with --linger forever, and what it says.
func staying(t *testing.T) (p *participant, said *nodetest.Lines) {
	t.Helper()
	cmd, said := &cobra.Command{}, &nodetest.Lines{}
	cmd.SetOut(said)
	cmd.SetErr(said)
	s, flags := peer.NewSettings(), pflag.NewFlagSet("", pflag.ContinueOnError)
	s.Register(flags)
	if err := flags.Parse([]string{"--trainer", "none", "--linger", "forever"}); err != nil {
		t.Fatal(err)
	}
	return newParticipant(cmd, s, launch{}), said
}

// node is a node, and the peer around it.
type node interface {
	endless
	leaver
}

// partake does what takePart does once the run is found.
func (p *participant) partake(ctx context.Context, n node) error {
	err := runToEnd(ctx, n, p.looks)
	if err == nil {
		err = serveOn(ctx, n)
	}
	return errors.Join(unlessAsked(ctx, err), p.finish(n, n), p.end(outputTime))
}

// Of three electors two die, and the third, which forks, is alone to the last slot. The peer that
// stays, which has no vote, follows it to the end of that branch. It goes on looking, and gets the
// run's model when the others are back and end the run.
func TestAPeerThatStaysOutlivesTheEndOfABranch(t *testing.T) {
	spec := nodetest.Spec(6, 3)
	spec.Trust = p2pdiloco.TrustByzantine
	nodetest.Run(t, spec, 4, func(s *nodetest.Swarm) {
		archive, voters := s.Peers[3], s.Peers[:3]
		p, _ := staying(t)
		ends := make(chan error, 1)
		archive.Config = func(c *p2pdiloco.Config) {
			nodetest.WithoutTrainer(c)
			c.OnQuorumLoss = p2pdiloco.OnLossPause
		}
		archive.Main = func(ctx context.Context, n *p2pdiloco.Node) error {
			err := p.partake(ctx, n)
			ends <- err
			return err
		}
		s.Start(voters...)
		s.Reach(2, voters...)
		s.Start(archive)
		s.Reach(3, archive)
		senior := s.Founder()
		last := s.But(senior, archive)[0]
		dead := s.But(last, archive)
		s.Isolate(dead...)
		s.Kill(dead...)
		s.Reach(6, last, archive)
		s.Until(2*time.Minute, "at the end of the branch", func() bool {
			return archive.Node.Load().Status().Phase == p2pdiloco.PhaseEndedProvisional
		})
		time.Sleep(time.Minute)
		if got := archive.Node.Load().Status().Phase; got != p2pdiloco.PhaseEndedProvisional {
			t.Errorf("at the end of the branch its phase is %s", got)
		}
		if err := s.Outcome(last, time.After(time.Minute)); err != nil {
			t.Errorf("the one that went on alone ends with %v", err)
		}
		s.Restart(dead...)
		s.Cut(true, dead, s.But(dead...)) // they know nothing of the branch
		s.Reach(6, dead...)
		s.Cut(false, dead, s.But(dead...))
		s.Until(3*time.Minute, "at the end of the run", func() bool {
			return archive.Node.Load().Status().Phase == p2pdiloco.PhaseEnded
		})
		if want, got := dead[0].States()[6], archive.States()[6]; got != want || got.IsZero() {
			t.Errorf("it holds %s, the run's model is %s", got.Short(), want.Short())
		}
		select {
		case err := <-archive.Done:
			t.Errorf("it has ended: %v", err)
		default:
		}
		archive.TakeNode() // it closes that itself
		s.Stop(archive)
		if err := <-ends; err != nil {
			t.Errorf("stopped, it ends with %v", err)
		}
	})
}

// ending is a node whose calls of Run have given outcomes.
type ending struct {
	mu         sync.Mutex
	outcomes   []error
	phase      p2pdiloco.Phase
	fault      error
	left, over bool
}

// look gives what the node has, and changes it.
func (e *ending) look(change func()) (outcomes int, left, over bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	change()
	return len(e.outcomes), e.left, e.over
}

func (e *ending) Status() (s p2pdiloco.Status) {
	e.look(func() { s.Phase = e.phase })
	return s
}

func (e *ending) Err() (err error) {
	e.look(func() { err = e.fault })
	return err
}

func (e *ending) Leave(context.Context) error { e.look(func() { e.left = true }); return nil }
func (e *ending) Close() error                { e.look(func() { e.over = true }); return nil }

func (e *ending) Run(ctx context.Context) error {
	err := ctx.Err()
	e.look(func() {
		if err, e.outcomes = e.outcomes[0], e.outcomes[1:]; errors.Is(err, p2pdiloco.ErrMissed) {
			e.phase = p2pdiloco.PhaseEndedMissed
		}
	})
	return err
}

// A peer that stays and whose model has gone with the peers that held it looks on, and serves the
// model once somebody has brought it. Stopped before, it does not say that it has the model. Of
// other errors it says what they are.
func TestAPeerThatStaysLooksForAModelThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := &ending{outcomes: []error{p2pdiloco.ErrMissed, nil}}
		p, said := staying(t)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		kept := make(chan error)
		go func() { kept <- p.partake(ctx, node) }()
		time.Sleep(time.Hour)
		synctest.Wait()
		if n, _, _ := node.look(func() {}); n != 1 || !said.Has("goes on looking") {
			t.Fatalf("it does not look on, and says %q", said)
		}
		node.look(func() { node.phase = p2pdiloco.PhaseRunning })
		time.Sleep(2 * lookAgain)
		synctest.Wait()
		if n, _, over := node.look(func() { node.phase = p2pdiloco.PhaseEnded }); n != 0 || over {
			t.Fatal("it does not go on with the model that has come")
		}
		stop()
		if err := <-kept; err != nil || node.left || !node.over {
			t.Errorf("stopped, it ends with %v; left %v, closed %v", err, node.left, node.over)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		p, _ := staying(t)
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		err := p.partake(ctx, &ending{outcomes: []error{p2pdiloco.ErrMissed}})
		if !errors.Is(err, p2pdiloco.ErrMissed) {
			t.Errorf("stopped while it looks, it ends with %v", err)
		}
	})
	gone := errors.New("the disk is gone")
	node := &ending{outcomes: []error{gone}}
	p, _ := staying(t)
	err := p.partake(t.Context(), node)
	if !errors.Is(err, gone) || !node.left {
		t.Errorf("it ends with %v, left %v", err, node.left)
	}
}

// A node may end by itself after the run has: its identity is used twice. A peer that serves the
// model ends then, too. It stayed, and served nothing.
func TestAPeerThatStaysNoticesThatItsNodeHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := &ending{outcomes: []error{nil}, phase: p2pdiloco.PhaseEnded}
		p, _ := staying(t)
		kept := make(chan error)
		go func() { kept <- p.partake(t.Context(), node) }()
		time.Sleep(time.Hour)
		node.look(func() { node.fault = p2pdiloco.ErrCloned })
		if err := <-kept; !errors.Is(err, p2pdiloco.ErrCloned) || !node.over {
			t.Errorf("it ends with %v, closed %v", err, node.over)
		}
	})
}
