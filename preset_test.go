package p2pdiloco

import (
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/membership"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// Who joins with a ticket and no preset takes the run's: with wan it would be taken for lost again and again, and never stay a member.
func TestANewcomerTakesTheRunsPreset(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(30, 2), 2, func(s *swarm) {
		s.pace(200 * time.Millisecond) // 4 s a round: in most of it nothing is said but ALIVE
		s.start(s.peers...)
		s.reach(1, s.peers...)
		guest := s.guest(s.invite(s.peers[0], InviteOptions{}))
		ticketed := guest.config
		guest.config = func(c *Config) { ticketed(c); c.Preset = "" }
		s.start(guest)
		s.until(time.Minute, "it contributed", func() bool { return s.contributed(guest) })
		s.kill(guest) // its data directory remembers
		guest.config = func(c *Config) { c.Preset = "" }
		at := guest.applied()
		s.restart(guest)
		s.finish(2*time.Minute, s.peers...)
		if !s.contributedAfter(guest, at+3) {
			t.Errorf("after a restart it contributed to slots %v, and none after %d", s.contributions(guest), at+3)
		}
		if left := s.peers[0].events("peer.left"); len(left) > 1 {
			t.Errorf("it was taken for lost where it was not killed: %v", left)
		}
	})
}

// lines is a log that a test reads.
type lines struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// A preset that is given is kept, and both sides say that they differ.
func TestPresetsThatDifferAreSaid(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(400, 1), 2, func(s *swarm) {
		s.pace(50 * time.Millisecond)
		logs := make([]lines, 2)
		for i, p := range s.peers {
			p.config = func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&logs[i], nil)) }
		}
		other := s.peers[1].config
		s.peers[1].config = func(c *Config) { other(c); c.Preset = PresetWAN }
		s.start(s.peers[0])
		s.reach(1, s.peers[0])
		s.start(s.peers[1])
		s.until(time.Minute, "both said so", func() bool {
			return strings.Contains(logs[0].String(), "here=lan there=wan") && strings.Contains(logs[1].String(), "here=wan there=lan")
		})
		for i := range logs {
			if n := strings.Count(logs[i].String(), "another preset"); n != 1 {
				t.Errorf("host %d said it %d times", i, n)
			}
		}
	})
}

// What a stranger says of the run's preset is not remembered before this peer is a member: with the wrong one it may never be.
func TestAPresetIsRememberedByMembers(t *testing.T) {
	for _, kind := range []membership.EventKind{membership.EventJoined, membership.EventFounded} {
		dir, err := openDataDir(disk.OS, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		spec, cfg := presetSpec()
		n := &Node{cfg: cfg, log: cfg.Logger, dir: dir, meeting: newMeeting(nil, cfg, presets[PresetWAN])}
		n.meeting.heard("stranger", p2p.Hello{Run: spec.Name, Spec: spec.Append(nil), Timing: PresetLAN})
		if err := n.adoptPreset(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n.timing.discovery != presets[PresetLAN].discovery {
			t.Error("the run's preset is not taken")
		}
		if n.wg.Wait(); dir.has(presetFile) {
			t.Error("the preset is remembered by who is no member")
		}
		n.ledgerEvent(membership.Event{Kind: kind})
		n.wg.Wait()
		n.cfg.Preset = ""
		if err := n.recallPreset(); err != nil || n.cfg.Preset != PresetLAN {
			t.Errorf("after %s it remembers %q, %v", kind, n.cfg.Preset, err)
		}
		if err := dir.close(); err != nil {
			t.Error(err)
		}
	}
}

func presetSpec() (Spec, Config) {
	spec := simSpec(10, 1)
	spec.Layout = Layout{{Name: "w", Shape: []uint64{4}}}
	return spec.Settled(), Config{Spec: Spec{Name: spec.Name}}.withDefaults()
}

// Who has the run's spec from before, and no preset, is told one by the run's peers, and waits no longer for that than for a run.
func TestAPresetThatIsNotRememberedIsTold(t *testing.T) {
	for told, want := range map[string]string{PresetLAN: PresetLAN, "": PresetWAN, "moon": PresetWAN} {
		synctest.Test(t, func(t *testing.T) {
			spec, cfg := presetSpec()
			m := newMeeting(nil, cfg, presets[PresetWAN])
			m.adopt(spec)
			if h := m.hello(); h.Timing != "" || len(h.Spec) == 0 || m.over() {
				t.Errorf("before, it says %q, and looks for nobody: %v", h.Timing, m.over())
			}
			go func() {
				time.Sleep(time.Second)
				for range 2 {
					m.heard("peer", p2p.Hello{Run: spec.Name, Spec: spec.Append(nil), Timing: told})
				}
			}()
			began := time.Now()
			if err := m.awaitPreset(t.Context()); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); (took == time.Second) != (told == want) || took > m.timing.discovery {
				t.Errorf("told %q it waited %s", told, took)
			}
			if m.preset() != want || m.hello().Timing != want || !m.over() {
				t.Errorf("told %q it takes %q and says %q; over: %v", told, m.preset(), m.hello().Timing, m.over())
			}
		})
	}
}
