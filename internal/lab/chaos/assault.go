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

// Files of a run. The first three are shared by hostile peers and their judge (package hostile).
const (
	hostileFolder = "hostile"
	beginFile     = "begin"
	deedFiles     = "deeds-*"
	diagnosisFile = "diagnosis" // of a run that made no progress
)

const (
	calmSlots  = 5                // undisturbed, before the attack begins
	lateFor    = 10 * time.Second // hostile newcomers have it to be heard before the run goes on
	standstill = 45 * time.Second // without a record: the attack has stopped the run
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
	a := &assault{attack: attackOf(name)}
	a.attack.peers = max(a.attack.peers, 1)
	a.folder = filepath.Join(dir, hostileFolder)
	a.runner = newRunner(cfg.swarm(), dir, screen, nil)
	a.oneFounds = true
	switch {
	case a.attack.few:
		a.cfg.Peers = minHonest
	case a.attack.late:
		a.cfg.Peers++ // in the place of the hostile one: as many have a vote
	default:
		a.hostile = a.attack.peers
	}
	if err := a.open(ctx); err != nil {
		return Verdict{}, err
	}
	failure := a.run(ctx, cfg)
	if errors.Is(failure, context.Canceled) {
		return Verdict{}, a.close()
	}
	if failure != nil {
		screen.Note(fmt.Sprintf("%s: %v", name, failure))
		if err := a.diagnoseTo(filepath.Join(dir, diagnosisFile)); err != nil {
			screen.Note(err.Error())
		}
	}
	if err := a.close(); err != nil {
		return Verdict{}, err
	}
	return a.judge(failure), nil
}

// diagnoseTo writes to a file what each honest peer was doing: other runs share the screen.
func (a *assault) diagnoseTo(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	a.screen = swarm.NewScreen(f, 0)
	a.diagnose()
	return f.Close()
}

// run takes the swarm through its calm slots and the attack, until the honest peers have ended.
func (a *assault) run(ctx context.Context, cfg HostileConfig) error {
	if err := os.MkdirAll(a.folder, 0o755); err != nil {
		return err
	}
	if err := a.start(ctx); err != nil {
		return err
	}
	if !a.attack.late {
		if err := a.startHostile(cfg); err != nil {
			return err
		}
	}
	a.ledger.progress = time.Now()
	for !a.over() {
		if err := a.look(); err != nil {
			return err
		}
		if err := a.lead(cfg); err != nil {
			return err
		}
		if time.Since(a.ledger.progress) > standstill {
			return fmt.Errorf("%w: no record since height %d (slot %d) for %v", errHang, a.ledger.height, a.ledger.slot,
				standstill)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(tick):
		}
	}
	return nil
}

// look reads all logs, and notices honest peers that have ended.
func (a *assault) look() error {
	if err := a.read(); err != nil {
		return err
	}
	for _, p := range a.foes {
		if err := p.Read(func([]byte, eventlog.Line) {}); err != nil {
			return err
		}
	}
	if a.reap(); len(a.ended) > 0 {
		return errors.New(a.ended[0])
	}
	return nil
}

// lead begins the attack after the calm slots, and opens the gate for as many slots as the run may
// train for.
func (a *assault) lead(cfg HostileConfig) error {
	if a.ledger.slot < calmSlots {
		return a.gateTo(calmSlots)
	}
	if a.began.IsZero() {
		a.began, a.from = time.Now(), a.ledger.slot
		a.screen.Note(fmt.Sprintf("%s begins at slot %d", a.attack.name, a.ledger.slot))
		if a.attack.late {
			if err := a.startHostile(cfg); err != nil {
				return err
			}
		}
		return os.WriteFile(filepath.Join(a.folder, beginFile), nil, 0o644)
	}
	if a.attack.late && a.deeds() == 0 && time.Since(a.began) < lateFor {
		a.ledger.progress = time.Now()
		return nil
	}
	if a.gate.slot < a.cfg.Slots {
		a.began, a.from = time.Now(), a.ledger.slot
	}
	return a.gateTo(a.cfg.Slots)
}

func (a *assault) gateTo(last uint64) error {
	if a.gate.slot == last {
		return nil
	}
	a.gate.slot = last
	return swarm.OpenGate(filepath.Join(a.dir, gateFile), last)
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
