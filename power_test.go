package p2pdiloco

import (
	"errors"
	"log/slog"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/checkpoint"
	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/disk/powerfs"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership"
)

// onPower puts peers on disks that lose power.
func (s *swarm) onPower() map[*simPeer]*powerfs.FS {
	disks := make(map[*simPeer]*powerfs.FS)
	for _, p := range s.peers {
		disks[p] = powerfs.New()
		p.config = func(c *Config) { c.disk, c.CheckpointEvery = disks[p], 2 }
	}
	return disks
}

// lose ends a peer's process as a power cut does: its disk is gone first.
func (s *swarm) lose(p *simPeer, d *powerfs.FS) {
	d.Cut()
	s.net.Isolate(p.host)
	p.cancel()
	<-p.done
	p.done = nil
	if n := p.node.Swap(nil); n != nil {
		_ = n.Close() // its disk is gone: it may say so
	}
	_ = p.network.Close()
	s.forget(p)
}

// Power cuts in whole nodes, each at some operation of the disk, before it or after it: of one peer at a time, and of all at once. All
// come back on what their disks hold, and nothing agreed is lost.
func TestPowerCutsOfWholeNodes(t *testing.T) {
	for seed := range uint64(2) {
		t.Run("", func(t *testing.T) {
			inSim(t, 10*time.Millisecond, simSpec(14, 3), 3, func(s *swarm) {
				rng, disks := rand.New(rand.NewPCG(seed, 0)), s.onPower()
				cuts := 0
				s.start(s.peers...)
				for cut := range 8 {
					p := s.peers[rng.IntN(3)]
					d := disks[p]
					d.CutAt(d.Ops()+rng.IntN(60), powerfs.Before+powerfs.Cut(rng.IntN(2)))
					s.until(2*time.Minute, "without power", func() bool { return d.Down() || p.applied() == s.spec.Rounds })
					if d.Down() {
						cuts++
					}
					out := []*simPeer{p}
					if cut%4 == 3 {
						out = s.peers
					}
					for _, p := range out {
						s.lose(p, disks[p])
						disks[p] = disks[p].Reboot(rng.Uint64N(12))
					}
					s.restart(out...)
				}
				s.finish(5*time.Minute, s.peers...)
				if cuts < 4 {
					t.Errorf("the power went %d times before the run ended", cuts)
				}
			})
		})
	}
}

// A disk that is full, read-only or failing ends its node with one error that says so; the others go on without waiting for it.
func TestADiskThatTakesNothingEndsItsNodeAlone(t *testing.T) {
	for name, c := range map[string]struct {
		fault error
		kind  powerfs.Kind
	}{
		"full":      {syscall.ENOSPC, powerfs.Write},
		"read-only": {syscall.EROFS, powerfs.Create},
		"failing":   {syscall.EIO, powerfs.Sync},
	} {
		t.Run(name, func(t *testing.T) {
			inSim(t, 10*time.Millisecond, simSpec(8, 3), 3, func(s *swarm) {
				disks, p := s.onPower(), s.peers[1]
				s.start(s.peers...)
				s.reach(2, s.peers...)
				disks[p].Plan(func(op powerfs.Op) powerfs.Fault {
					if op.Kind == c.kind {
						return powerfs.Fault{Err: c.fault}
					}
					return powerfs.Fault{}
				})
				var err error
				select {
				case err = <-p.done:
				case <-time.After(time.Minute):
					t.Fatalf("the node works on without a disk\n%s", s)
				}
				if !errors.Is(err, c.fault) || !disk.Fault(err) || strings.Count(err.Error(), c.fault.Error()) != 1 {
					t.Errorf("the node ended with: %v", err)
				}
				p.done <- err
				s.lose(p, disks[p])
				s.finish(2*time.Minute, s.but(p)...)
			})
		})
	}
}

// A disk that takes two seconds for every sync slows what waits for it, and nothing else: slots are decided by the others' quorum, and
// the peer stays a member.
func TestASlowDiskSlowsItsOwnPeer(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(8, 4), 4, func(s *swarm) {
		disks, slow := s.onPower(), s.peers[1]
		disks[slow].Plan(func(op powerfs.Op) powerfs.Fault {
			if op.Kind == powerfs.Sync || op.Kind == powerfs.SyncDir {
				return powerfs.Fault{Delay: 2 * time.Second}
			}
			return powerfs.Fault{}
		})
		s.start(s.peers...)
		s.reach(1, s.peers...)
		began := time.Now()
		s.finish(5*time.Minute, s.peers...)
		t.Logf("7 slots in %v", time.Since(began))
		for _, q := range s.but(slow) {
			for _, e := range slow.events("peer.suspected") {
				if e.Fields["about"] == s.id(q) && e.Time.Before(q.events("run.done")[0].Time) {
					t.Errorf("it takes host %d for lost, which spoke while its disk was busy: %v", q.host, e)
				}
			}
			for _, e := range append(q.events("peer.left"), q.events("peer.suspected")...) {
				if e.Fields["about"] == s.id(slow) {
					t.Errorf("host %d: %s: %v", q.host, e.Name, e.Fields)
				}
			}
		}
	})
}

// The power goes at each operation of holding an outcome: what was reported as held is on the disk after it.
func TestHeldIsOnDisk(t *testing.T) {
	cfg := checkpoint.Config{Shape: checkpoint.Shape{Elements: 1}, FrameBytes: 64}
	open := func(f *powerfs.FS) *checkpoint.Store {
		cfg.FS = f
		store, err := checkpoint.Open("/state", cfg)
		if err != nil {
			t.Fatal(err)
		}
		return store
	}
	draft := slot.Draft{Ref: slot.Ref{Height: 1}, Kind: slot.Step, Slot: 1}
	held, told := 0, 0
	for at := range 20 {
		f := powerfs.New()
		w := &worker{log: slog.New(slog.DiscardHandler), fatal: func(error) {}, store: open(f)}
		f.CutAt(f.Ops()+at, powerfs.Before)
		said := false
		w.Do(t.Context(), membership.WorkHold{Draft: draft}, func(r membership.Report) {
			_, ok := r.(membership.ReportHeld)
			said = said || ok
		})
		w.jobs.wait()
		is := open(f.Reboot(0)).HasOutcome(1, draft.Outcome())
		if said && !is {
			t.Errorf("cut at operation %d: held, and it is lost", at)
		}
		if said {
			told++
		}
		if is {
			held++
		}
	}
	if told == 0 || held == 20 {
		t.Errorf("reported %d times and held %d times of 20", told, held)
	}
}
