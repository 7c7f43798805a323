package p2pdiloco

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/ticket"
)

// invite is a ticket of a peer's.
func (s *swarm) invite(p *simPeer, o InviteOptions) string {
	s.t.Helper()
	text, err := p.node.Load().Invite(s.t.Context(), o)
	if err != nil {
		s.t.Fatal(err)
	}
	return text
}

// guest adds a peer that has a ticket and knows nothing else.
func (s *swarm) guest(text string) *simPeer {
	p := s.add()
	p.boot = p.host // nobody
	p.config = func(c *Config) { c.Spec, c.Ticket = Spec{}, text }
	return p
}

// changed is a ticket with something else in it.
func changed(t *testing.T, text string, change func(*ticket.Ticket)) string {
	t.Helper()
	k, err := ticket.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	change(&k)
	if text, err = k.Encode(); err != nil {
		t.Fatal(err)
	}
	return text
}

// A ticket is all that a newcomer needs, though the peer that made it and the bootstrap node have died since.
func TestATicketOutlivesWhoMadeIt(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(14, 3), 3, func(s *swarm) {
		s.pace(50 * time.Millisecond)
		s.start(s.peers...)
		s.reach(1, s.peers...)
		maker := s.peers[1]
		text := s.invite(maker, InviteOptions{})
		s.net.Isolate(0)
		s.kill(maker)
		guest := s.guest(text)
		s.start(guest)
		s.finish(2*time.Minute, s.but(maker)...)
		if !s.contributed(guest) {
			t.Error("who joined with the ticket contributed nothing")
		}
	})
}

// The record that a ticket pins, and the run's ID in it, are what a chain must have.
func TestATicketLeadsToItsRunAlone(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(200, 1), 1, func(s *swarm) {
		s.start(s.peers...)
		s.reach(2, s.peers...)
		good := s.invite(s.peers[0], InviteOptions{})
		foreign := s.guest(changed(t, good, func(k *ticket.Ticket) { k.RunID[0] ^= 1 }))
		misled := s.guest(changed(t, good, func(k *ticket.Ticket) { k.Pin[0] ^= 1 }))
		honest := s.guest(good)
		odd := s.guest(good)
		odd.config = func(c *Config) { c.Spec, c.Ticket = Spec{InnerSteps: 999}, good }
		s.start(foreign, misled, honest, odd)
		s.until(time.Minute, "joined", func() bool { return honest.had("run.joined") })
		time.Sleep(20 * time.Second) // longer than it takes to found
		for _, p := range []*simPeer{foreign, misled} {
			if p.had("run.joined") || p.had("run.founded") || p.applied() > 0 {
				t.Errorf("host %d took part in a run that is not its ticket's", p.host)
			}
		}
		if err := s.outcome(odd, time.After(time.Minute)); err == nil || !strings.Contains(err.Error(), "inner_steps") {
			t.Errorf("who was given another setting than the run has: %v", err)
		}
		if n := honest.node.Load(); !n.Status().Pinned || n.Spec().Rounds != 200 {
			t.Errorf("status %+v", n.Status())
		}
		if foreign.node.Load() != nil {
			t.Error("the run of another ID was taken for the ticket's")
		}
	})
}

func TestATicketOfNoUse(t *testing.T) {
	good := ticket.Ticket{
		Run: "books", RunID: Root{1}, Pin: Root{2}, Expires: time.Now().Add(time.Hour).UTC().Truncate(time.Second),
		Addrs: []string{"/ip4/127.0.0.1/tcp/9/p2p/12D3KooWEqnTdgqHnkkwarSrJjeMP2ZJiADWLYADaNvUb6SQNyPF"},
	}
	text, err := good.Encode()
	if err != nil {
		t.Fatal(err)
	}
	expired := changed(t, text, func(k *ticket.Ticket) { k.Expires = time.Unix(1e9, 0).UTC() })
	for _, c := range []struct {
		config Config
		want   string
	}{
		{Config{Ticket: text[:len(text)-1]}, "cut off"},
		{Config{Ticket: "books"}, "this is no ticket"},
		{Config{Ticket: text, Spec: Spec{Name: "other"}}, `Spec.Name is "other", and the ticket is for run "books"`},
		{Config{Ticket: text, Pin: Root{3}}, "the ticket pins 02"},
		{Config{Ticket: text, Found: true}, "is for a run that exists"},
		{Config{Ticket: expired, Preset: PresetLAN, Listen: []string{"/ip4/127.0.0.1/tcp/0"}}, "it expired on "},
	} {
		n, err := Join(t.Context(), c.config)
		if err == nil {
			err = n.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
		if c.config.Ticket == expired && !errors.Is(err, ErrTicket) {
			t.Errorf("%v is not ErrTicket", err)
		}
	}
}

// A ticket whose run is gone founds nothing; its user is told why nothing happens, whether somebody is left who was in its addresses or not.
func TestATicketOfADeadRun(t *testing.T) {
	for name, want := range map[string]string{"the bootstrap node lives": errMissing.Error(), "nobody lives": "no bootstrap address answers yet"} {
		t.Run(name, func(t *testing.T) {
			inSim(t, 10*time.Millisecond, simSpec(200, 1), 1, func(s *swarm) {
				s.start(s.peers...)
				s.reach(1, s.peers...)
				guest := s.guest(s.invite(s.peers[0], InviteOptions{}))
				var log lines
				ticketed := guest.config
				guest.config = func(c *Config) { ticketed(c); c.Logger = slog.New(slog.NewTextHandler(&log, nil)) }
				s.kill(s.peers[0])
				if name == "nobody lives" {
					s.net.Isolate(0)
				}
				s.start(guest)
				s.until(3*time.Minute, "it says so", func() bool {
					return strings.Contains(log.String(), "nobody of the ticket's run is found yet") && strings.Contains(log.String(), want)
				})
				time.Sleep(2 * time.Minute)
				if n := strings.Count(log.String(), "\n"); n > 20 {
					t.Errorf("%d lines of log:\n%s", n, log.String())
				}
				if guest.had("run.founded") {
					t.Error("a ticket founded a run")
				}
			})
		})
	}
}
