package p2pdiloco

import (
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"
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
