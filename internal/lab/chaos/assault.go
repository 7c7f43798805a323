package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
)

// Files of a run. They are shared by hostile peers and their judge (package hostile).
const (
	hostileFolder = "hostile"
	beginFile     = "begin"
	deedFiles     = "deeds-*"
)

const (
	calmSlots = 5                // undisturbed, before the attack begins
	lateFor   = 10 * time.Second // hostile newcomers have it to be heard before the run goes on
)

// assault is a run with hostile peers of one kind. The nodes of its runner are the honest ones.
type assault struct {
	*runner
	attack attack
	foes   []*node // the hostile ones
	folder string  // that it shares with them
	began  time.Time
	from   uint64 // the newest slot when the attack began
}

// assail runs one swarm, in a folder of its own, with hostile peers of one kind.
func assail(ctx context.Context, cfg HostileConfig, name Attack, dir string, screen *swarm.Screen) (Verdict, error) {
	a := &assault{attack: attackOf(name), folder: filepath.Join(dir, hostileFolder)}
	a.attack.peers = max(a.attack.peers, 1)
	a.runner = newRunner(cfg.swarm(), dir, screen, nil)
	a.oneFounds, a.lead, a.limit = true, func() error { return a.goOn(cfg) }, a.mayTrain
	switch {
	case a.attack.few:
		a.cfg.Peers = minHonest
	case a.attack.late:
		a.cfg.Peers++ // in the place of the hostile one: as many have a vote
	default:
		a.hostile = a.attack.peers
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
	if len(a.foes) == 0 && (!a.attack.late || !calm) {
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
	a.note("%s begins", a.attack.name)
	return os.WriteFile(filepath.Join(a.folder, beginFile), nil, 0o644)
}

// mayTrain is the slot up to which the run may train: newcomers have some time to be heard before
// it goes on.
func (a *assault) mayTrain() uint64 {
	if a.began.IsZero() || a.attack.late && a.deeds() == 0 && time.Since(a.began) < lateFor {
		return calmSlots
	}
	if a.gate.slot < a.cfg.Slots {
		a.began, a.from = time.Now(), a.ledger.slot
	}
	return a.cfg.Slots
}

// startHostile starts the hostile peers.
func (a *assault) startHostile(cfg HostileConfig) error {
	for i := range a.attack.peers {
		n := len(a.nodes) + i + 1
		p := &node{Peer: a.swarm.NewPeer(n, a.dir, fmt.Sprintf("hostile-%d", i+1)), n: n}
		p.Words = []string{cfg.HostileProgram, HostileCommand, string(a.attack.name), a.folder}
		a.foes = append(a.foes, p)
		args := slices.Concat(a.settings(), a.swarm.Listen(n))
		if a.attack.idle {
			args = append(args, "--trainer", "none")
		} else {
			args = slices.Concat(args, a.training(), a.attack.flags)
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
	files, _ := filepath.Glob(filepath.Join(a.folder, deedFiles)) // the pattern is well formed
	for _, name := range files {
		if b, err := os.ReadFile(name); err == nil {
			n += bytes.Count(b, []byte("\n"))
		}
	}
	return n
}
