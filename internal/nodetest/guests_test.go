package nodetest

import (
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
)

// RunPrivate does what Run does, with a private run that its only peer has founded, and inner steps
// of this length.
func RunPrivate(t *testing.T, rounds, startPeers uint64, step time.Duration, f func(s *Swarm, founder *Peer)) {
	Run(t, Spec(rounds, startPeers), 1, func(s *Swarm) {
		founder := s.Peers[0]
		founder.Config = func(c *p2pdiloco.Config) { c.Spec.Access = p2pdiloco.AccessPrivate }
		s.Pace(step)
		s.Start(founder)
		s.Until(time.Minute, "founded", func() bool { return founder.Had("run.founded") })
		f(s, founder)
	})
}

// Invite returns a ticket that a peer has made.
func (s *Swarm) Invite(p *Peer, o p2pdiloco.InviteOptions) string {
	s.T.Helper()
	text, err := p.Node.Load().Invite(s.T.Context(), o)
	if err != nil {
		s.T.Fatal(err)
	}
	return text
}

// Guest adds a peer that has a ticket and knows nothing else.
func (s *Swarm) Guest(text string) *Peer {
	p := s.Add()
	p.Boot = p.Host // nobody
	p.Config = func(c *p2pdiloco.Config) { c.Spec, c.Ticket = p2pdiloco.Spec{}, text }
	return p
}
