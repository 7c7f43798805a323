package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/hostile"
	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
)

// hostileFolder is what hostile peers share with their judge (package hostile).
const hostileFolder = "hostile"

const (
	calmSlots = 5                // undisturbed, before the attack begins
	lateFor   = 10 * time.Second // hostile newcomers have it to be heard before the run goes on
)

// assault is a run with hostile peers of one kind. The nodes of its runner are the honest ones.
type assault struct {
	*runner
	kind   hostile.Kind
	foes   []*node // the hostile ones
	folder string  // that it shares with them
	began  time.Time
	from   uint64 // the newest slot when the attack began
}

// assail runs one swarm, in a folder of its own, with hostile peers of one kind.
func assail(ctx context.Context, cfg HostileConfig, name, dir string, screen *swarm.Screen) (Verdict, error) {
	a := &assault{folder: filepath.Join(dir, hostileFolder)}
	a.kind, _ = hostile.Find(name) // ParseAttacks knows it
	a.runner = newRunner(cfg.swarm(), dir, screen, nil)
	a.oneFounds, a.lead, a.limit = true, func() error { return a.goOn(cfg) }, a.mayTrain
	switch {
	case a.kind.Few:
		a.cfg.Peers = minHonest
	case a.kind.Late:
		a.cfg.Peers++ // in the place of the hostile one: as many have a vote
	default:
		a.hostile = max(a.kind.Peers, 1)
	}
	if err := os.MkdirAll(a.folder, 0o755); err != nil {
		return Verdict{}, err
	}
	failure, err := a.whole(ctx)
	if err != nil || errors.Is(failure, context.Canceled) {
		return Verdict{}, err
	}
	return a.judge(failure), nil
}

// goOn starts the hostile peers, and begins the attack after the calm slots.
func (a *assault) goOn(cfg HostileConfig) error {
	calm := a.ledger.slot < calmSlots
	if len(a.foes) == 0 && (!a.kind.Late || !calm) {
		if err := a.startHostile(cfg); err != nil {
			return err
		}
	}
	for _, p := range a.foes {
		if err := p.Read(func([]byte, eventlog.Line) {}); err != nil { // it has the peer's ID
			return err
		}
	}
	if calm || !a.began.IsZero() {
		return nil
	}
	a.began, a.from = time.Now(), a.ledger.slot
	a.note("%s begins", a.kind.Name)
	return hostile.Begin(a.folder)
}

// mayTrain is the slot up to which the run may train: newcomers have some time to be heard before
// it goes on.
func (a *assault) mayTrain() uint64 {
	if a.began.IsZero() || a.kind.Late && a.deeds() == 0 && time.Since(a.began) < lateFor {
		return calmSlots
	}
	if a.gate.slot < a.cfg.Slots {
		a.began, a.from = time.Now(), a.ledger.slot
	}
	return a.cfg.Slots
}

// startHostile starts the hostile peers.
func (a *assault) startHostile(cfg HostileConfig) error {
	for i := range max(a.kind.Peers, 1) {
		n := len(a.nodes) + i + 1
		p := &node{Peer: a.swarm.NewPeer(n, a.dir, fmt.Sprintf("hostile-%d", i+1)), n: n}
		p.Words = []string{cfg.HostileProgram, HostileCommand, a.kind.Name, a.folder}
		a.foes = append(a.foes, p)
		args := slices.Concat(a.settings(), a.swarm.Listen(n))
		if a.kind.Idle {
			args = append(args, "--trainer", "none")
		} else {
			args = append(args, a.training()...)
		}
		if a.kind.Fast {
			args = append(args, "--pause", "10ms")
		}
		boots := slices.Concat(a.boot.Addrs, a.acquaintance(p))
		if err := a.swarm.Join(p.Peer, a.runner.name, boots, args...); err != nil {
			return err
		}
	}
	return nil
}

// deeds counts what the hostile peers did.
func (a *assault) deeds() (n int) {
	for _, p := range a.foes {
		n += strings.Count(hostile.Deeds(a.folder, p.ID), "\n")
	}
	return n
}
