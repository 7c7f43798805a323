package membership

import (
	"errors"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	canonical "github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// sender signs messages and hands them to the transport. Only the loop uses it.
type sender struct {
	cfg   DriverConfig
	inc   slot.Incarnation
	own   []wire.Message // signed, addressed to this peer itself
	alive *wire.Envelope // the newest ALIVE that was sent
}

func newSender(cfg DriverConfig, inc slot.Incarnation) *sender { return &sender{cfg: cfg, inc: inc} }

// send signs a body once and hands it to the transport for all receivers.
func (s *sender) send(e wire.Envelope) error {
	m, b, err := wire.SealMessage(s.cfg.Signer, s.cfg.Rules.Run, s.inc, e.Body)
	if errors.Is(err, canonical.ErrTooLarge) {
		s.cfg.Logger.Error("a ledger message cannot be sent: the run has too many members or segments", "error", err)
		return nil
	}
	if err != nil {
		return err
	}
	passSigned(e.Body)
	for _, p := range e.To {
		if p == m.From {
			s.own = append(s.own, m)
			continue
		}
		s.cfg.Transport.Send(p, b)
	}
	if len(e.BriefTo) > 0 {
		brief := m
		brief.Body = e.Brief
		sealed := brief.Sealed(s.cfg.Rules.Run)
		for _, p := range e.BriefTo {
			s.cfg.Transport.Send(p, sealed)
		}
	}
	if _, ok := e.Body.(wire.Alive); ok {
		s.alive = &e
	}
	if e.Gossip && len(b) > wire.MaxAnnouncement {
		s.cfg.Logger.Debug("too large to be gossiped; peers ask for it", "type", wire.TypeName(e.Body.Type()),
			"bytes", len(b))
	} else if e.Gossip {
		s.cfg.Transport.Publish(b)
	}
	return nil
}

// repeatAlive sends the newest ALIVE again, if there is one.
func (s *sender) repeatAlive() error {
	if s.alive == nil {
		return nil
	}
	return s.send(*s.alive)
}

// takeOwn returns the messages to this peer itself that wait.
func (s *sender) takeOwn() []wire.Message {
	own := s.own
	s.own = nil
	return own
}
