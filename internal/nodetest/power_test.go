package nodetest

import (
	"errors"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/disk/powerfs"
	"github.com/p2pdiloco/p2pdiloco/internal/node/edge"
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
)

// onPower puts peers on disks that lose power.
func onPower(s *Swarm) map[*Peer]*powerfs.FS {
	disks := make(map[*Peer]*powerfs.FS)
	for _, p := range s.Peers {
		disks[p] = powerfs.New()
		p.Hooks = func(h *edge.Hooks) { h.Disk = disks[p] }
		p.Config = func(c *p2pdiloco.Config) { c.CheckpointEvery = 2 }
	}
	return disks
}

// lose ends a peer's process as a power cut does: its disk is gone first.
func lose(s *Swarm, p *Peer, d *powerfs.FS) {
	d.Cut()
	s.Net.Isolate(p.Host)
	p.Cancel()
	<-p.Done
	p.Done = nil
	if n := p.TakeNode(); n != nil {
		_ = n.Close() // its disk is gone: it may say so
	}
	_ = p.Network.Close()
	s.Forget(p)
}

// Power cuts in whole nodes, each at some operation of the disk, before it or after it: of one peer
// at a time, and of all at once. All come back on what their disks hold, and nothing agreed is
// lost.
func TestPowerCutsOfWholeNodes(t *testing.T) {
	for seed := range testutil.Choose[uint64](1, 1, 4) {
		t.Run("", func(t *testing.T) {
			Once(t, 14, 3, func(s *Swarm) {
				rng, disks := rand.New(rand.NewPCG(seed, 0)), onPower(s)
				cuts := 0
				s.Start(s.Peers...)
				for cut := range 8 {
					p := s.Peers[rng.IntN(3)]
					d := disks[p]
					d.CutAt(d.Ops()+rng.IntN(60), powerfs.Before+powerfs.Cut(rng.IntN(2)))
					s.Until(2*time.Minute, "without power",
						func() bool { return d.Down() || p.Applied() == s.Spec.Rounds })
					if d.Down() {
						cuts++
					}
					out := []*Peer{p}
					if cut%4 == 3 {
						out = s.Peers
					}
					for _, p := range out {
						lose(s, p, disks[p])
						disks[p] = disks[p].Reboot(rng.Uint64N(12))
					}
					s.Restart(out...)
				}
				s.Finish(5*time.Minute, s.Peers...)
				if cuts < 4 {
					t.Errorf("the power went %d times before the run ended", cuts)
				}
			})
		})
	}
}

// A disk that is full, read-only or failing ends its node with one error that says so; the others
// go on without waiting for it.
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
			Once(t, 8, 3, func(s *Swarm) {
				disks, p := onPower(s), s.Peers[1]
				s.Start(s.Peers...)
				s.Reach(2, s.Peers...)
				disks[p].Plan(func(op powerfs.Op) powerfs.Fault {
					if op.Kind == c.kind {
						return powerfs.Fault{Err: c.fault}
					}
					return powerfs.Fault{}
				})
				s.Until(time.Minute, "ended without a disk", func() bool { return len(p.Done) > 0 })
				err := <-p.Done
				if !errors.Is(err, c.fault) || !disk.Fault(err) || strings.Count(err.Error(), c.fault.Error()) != 1 {
					t.Errorf("the node ended with: %v", err)
				}
				p.Done <- err
				lose(s, p, disks[p])
				s.Finish(2*time.Minute, s.But(p)...)
			})
		})
	}
}

// A disk that takes a second and a half for every sync, of which a record needs two, slows what
// waits for it, and nothing else: slots are decided by the others' quorum, and the peer stays a
// member.
func TestASlowDiskSlowsItsOwnPeer(t *testing.T) {
	Once(t, 5, 4, func(s *Swarm) {
		disks, slow := onPower(s), s.Peers[1]
		disks[slow].Plan(func(op powerfs.Op) powerfs.Fault {
			if op.Kind == powerfs.Sync || op.Kind == powerfs.SyncDir {
				time.Sleep(1500 * time.Millisecond)
			}
			return powerfs.Fault{}
		})
		s.Start(s.Peers...)
		s.Reach(1, s.Peers...)
		began := time.Now()
		s.Finish(5*time.Minute, s.Peers...)
		t.Logf("4 slots in %v", time.Since(began))
		for _, q := range s.But(slow) {
			for _, e := range slow.Events("peer.suspected") {
				if e.Fields["about"] == s.ID(q) && e.Time.Before(q.Events("run.done")[0].Time) {
					t.Errorf("it takes host %d for lost, which spoke while its disk was busy: %v", q.Host, e)
				}
			}
			for _, e := range append(q.Events("peer.left"), q.Events("peer.suspected")...) {
				if e.Fields["about"] == s.ID(slow) {
					t.Errorf("host %d: %s: %v", q.Host, e.Name, e.Fields)
				}
			}
		}
	})
}
