package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
	"github.com/p2pdiloco/p2pdiloco/internal/lab"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/hostile"
)

const (
	calmSlots = 5                // undisturbed, before the attack begins
	lateFor   = 10 * time.Second // hostile newcomers have it to be heard before the run goes on
)

// assault is a run with hostile peers of one kind. The nodes of its runner are the honest ones.
type assault struct {
	*runner
	hostile.Story
	foes  []*node // the hostile ones
	began time.Time
}

// assail runs one swarm, in a folder of its own, with hostile peers of one kind.
func assail(ctx context.Context, cfg HostileConfig, k hostile.Kind, dir string, screen *lab.Notes) (Verdict, error) {
	run := cfg.Config
	run.Slots += calmSlots
	a := &assault{runner: newRunner(run, dir, screen, nil), Story: hostile.Story{
		Kind: k, Foes: make([]string, max(k.Peers, 1)), Folder: filepath.Join(dir, "hostile"),
		Share: int(run.Settings().Settled().NewcomerShare),
	}}
	a.oneFounds, a.lead, a.limit = true, func() error { return a.goOn(cfg.HostileProgram) }, a.mayTrain
	switch {
	case k.Few:
		a.cfg.Peers = minPeers
	case k.Late:
		a.cfg.Peers++ // in the place of the hostile one: as many have a vote
	default:
		a.hostile = len(a.Foes)
	}
	if err := os.MkdirAll(a.Folder, 0o755); err != nil {
		return Verdict{}, err
	}
	failure, err := a.whole(ctx)
	if err != nil || errors.Is(failure, context.Canceled) {
		return Verdict{}, err
	}
	return a.judge(failure), nil
}

// goOn starts the hostile peers, and begins the attack after the calm slots.
func (a *assault) goOn(program string) error {
	calm := a.ledger.slot < calmSlots
	if len(a.foes) == 0 && (!a.Late || !calm) {
		if err := a.startHostile(program); err != nil {
			return err
		}
	}
	for i, p := range a.foes {
		if err := p.Read(func(eventlog.Line) {}); err != nil { // it has the peer's ID
			return err
		}
		a.Foes[i] = p.ID
	}
	if calm || !a.began.IsZero() {
		return nil
	}
	a.began, a.From = time.Now(), a.ledger.slot
	a.note("%s begins", a.Kind.Name)
	return hostile.Begin(a.Folder)
}

// mayTrain is the slot up to which the run may train: newcomers have some time to be heard before
// it goes on.
func (a *assault) mayTrain() uint64 {
	if a.began.IsZero() || a.Late && a.Deeds() == 0 && time.Since(a.began) < lateFor {
		return calmSlots
	}
	if a.gate.slot < a.cfg.Slots {
		a.From = a.ledger.slot
	}
	return a.cfg.Slots
}

// startHostile starts the hostile peers.
func (a *assault) startHostile(program string) error {
	for i := range a.Foes {
		n := len(a.nodes) + i + 1
		p := &node{Peer: a.swarm.NewPeer(n, a.dir, fmt.Sprintf("hostile-%d", i+1)), n: n}
		p.Words = []string{program, hostile.Command, a.Kind.Name, a.Folder}
		a.foes = append(a.foes, p)
		boots := slices.Concat(a.boot.Addrs, a.acquaintance(p))
		args := slices.Concat(a.settings(), a.swarm.Listen(n), a.training())
		if err := a.swarm.Join(p.Peer, a.name, boots, args...); err != nil {
			return err
		}
	}
	return nil
}
