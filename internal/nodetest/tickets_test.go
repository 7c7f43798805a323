package nodetest

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/node/edge"
	"github.com/p2pdiloco/p2pdiloco/internal/ticket"
)

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

// A ticket is all that a newcomer needs, though the peer that made it and the bootstrap node have
// died since.
func TestATicketOutlivesWhoMadeIt(t *testing.T) {
	Once(t, 14, 3, func(s *Swarm) {
		s.Pace(50 * time.Millisecond)
		s.Start(s.Peers...)
		s.Reach(1, s.Peers...)
		maker := s.Peers[1]
		text := s.Invite(maker, p2pdiloco.InviteOptions{})
		s.Net.Isolate(0)
		s.Kill(maker)
		guest := s.Guest(text)
		s.Start(guest)
		s.Finish(2*time.Minute, s.But(maker)...)
		if !s.ContributedAfter(guest, 0) {
			t.Error("who joined with the ticket contributed nothing")
		}
	})
}

// The record that a ticket pins, and the run's ID in it, are what a chain must have.
func TestATicketLeadsToItsRunAlone(t *testing.T) {
	Once(t, 200, 1, func(s *Swarm) {
		s.Start(s.Peers...)
		s.Reach(2, s.Peers...)
		good := s.Invite(s.Peers[0], p2pdiloco.InviteOptions{})
		foreign := s.Guest(changed(t, good, func(k *ticket.Ticket) { k.RunID[0] ^= 1 }))
		misled := s.Guest(changed(t, good, func(k *ticket.Ticket) { k.Pin[0] ^= 1 }))
		honest := s.Guest(good)
		odd := s.Guest(good)
		odd.Config = func(c *p2pdiloco.Config) { c.Spec, c.Ticket = p2pdiloco.Spec{InnerSteps: 999}, good }
		s.Start(foreign, misled, honest, odd)
		s.Until(time.Minute, "joined", func() bool { return honest.Had("run.joined") })
		time.Sleep(20 * time.Second) // longer than it takes to found
		for _, p := range []*Peer{foreign, misled} {
			if p.Had("run.joined") || p.Had("run.founded") || p.Applied() > 0 {
				t.Errorf("host %d took part in a run that is not its ticket's", p.Host)
			}
		}
		if err := s.Outcome(odd, time.After(time.Minute)); err == nil || !strings.Contains(err.Error(), "inner_steps") {
			t.Errorf("who was given another setting than the run has: %v", err)
		}
		if n := honest.Node.Load(); !n.Status().Pinned || n.Spec().Rounds != 200 {
			t.Errorf("status %+v", n.Status())
		}
		if foreign.Node.Load() != nil {
			t.Error("the run of another ID was taken for the ticket's")
		}
	})
}

func TestATicketOfNoUse(t *testing.T) {
	good := ticket.Ticket{
		Run: "books", RunID: p2pdiloco.Root{1}, Pin: p2pdiloco.Root{2},
		Expires: time.Now().Add(time.Hour).UTC().Truncate(time.Second),
		Addrs:   []string{"/ip4/127.0.0.1/tcp/9/p2p/12D3KooWEqnTdgqHnkkwarSrJjeMP2ZJiADWLYADaNvUb6SQNyPF"},
	}
	text, err := good.Encode()
	if err != nil {
		t.Fatal(err)
	}
	expired := changed(t, text, func(k *ticket.Ticket) { k.Expires = time.Unix(1e9, 0).UTC() })
	for _, c := range []struct {
		config p2pdiloco.Config
		want   string
	}{
		{p2pdiloco.Config{Ticket: text[:len(text)-1]}, "cut off"},
		{p2pdiloco.Config{Ticket: "books"}, "this is no ticket"},
		{
			p2pdiloco.Config{Ticket: text, Spec: p2pdiloco.Spec{Name: "other"}},
			`Spec.Name is "other", and the ticket is for run "books"`,
		},
		{p2pdiloco.Config{Ticket: text, Pin: p2pdiloco.Root{3}}, "the ticket pins 02"},
		{p2pdiloco.Config{Ticket: text, Found: true}, "is for a run that exists"},
		{
			p2pdiloco.Config{Ticket: expired, Preset: p2pdiloco.PresetLAN, Listen: []string{"/ip4/127.0.0.1/tcp/0"}},
			"it expired on ",
		},
	} {
		n, err := p2pdiloco.Join(t.Context(), c.config)
		if err == nil {
			err = n.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
		if c.config.Ticket == expired && !errors.Is(err, p2pdiloco.ErrTicket) {
			t.Errorf("%v is not ErrTicket", err)
		}
	}
}

// A ticket whose run is gone founds nothing; its user is told why nothing happens, whether a peer
// is left that was in its addresses or not.
func TestATicketOfADeadRun(t *testing.T) {
	for name, want := range map[string]string{
		"the bootstrap node lives": "some answer, and none of them knows a peer of the run",
		"nobody lives":             "no bootstrap address answers yet",
	} {
		t.Run(name, func(t *testing.T) {
			Once(t, 200, 1, func(s *Swarm) {
				s.Start(s.Peers...)
				s.Reach(1, s.Peers...)
				guest := s.Guest(s.Invite(s.Peers[0], p2pdiloco.InviteOptions{}))
				var log Lines
				ticketed := guest.Config
				guest.Config = func(c *p2pdiloco.Config) {
					ticketed(c)
					c.Logger = slog.New(slog.NewTextHandler(&log, nil))
				}
				s.Kill(s.Peers[0])
				if name == "nobody lives" {
					s.Net.Isolate(0)
				}
				s.Start(guest)
				s.Until(3*time.Minute, "it says so", func() bool {
					return strings.Contains(log.String(), "nobody of this run is found yet") &&
						strings.Contains(log.String(), want)
				})
				time.Sleep(2 * time.Minute)
				if n := strings.Count(log.String(), "\n"); n > 20 {
					t.Errorf("%d lines of log:\n%s", n, log.String())
				}
				if guest.Had("run.founded") {
					t.Error("a ticket founded a run")
				}
			})
		})
	}
}

// A member's and a newcomer's clocks are wrong by an hour and a half, in opposite directions. A
// ticket that the member makes admits the newcomer, and nobody is dropped for it.
func TestClocksThatAreWrong(t *testing.T) {
	for _, ahead := range []time.Duration{90 * time.Minute, -90 * time.Minute} {
		t.Run(ahead.String(), func(t *testing.T) {
			RunPrivate(t, 14, 2, 50*time.Millisecond, func(s *Swarm, founder *Peer) {
				member := s.Guest(s.Invite(founder, p2pdiloco.InviteOptions{}))
				member.Hooks = func(h *edge.Hooks) { h.Clock = ahead }
				s.Start(member)
				s.Reach(1, founder, member)
				newcomer := s.Guest(s.Invite(member, p2pdiloco.InviteOptions{}))
				newcomer.Hooks = func(h *edge.Hooks) { h.Clock = -ahead }
				s.Start(newcomer)
				s.Finish(2*time.Minute, s.Peers...)
				s.Sound()
			})
		})
	}
}
