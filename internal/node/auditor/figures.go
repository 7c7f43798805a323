package auditor

import (
	"errors"

	"github.com/p2pdiloco/p2pdiloco/allreduce/audit"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// Figures are what owners have published here of who contributed what.
type Figures interface {
	// Of has a row for each frame of a range of a slot, about some peers; false: none have come.
	Of(slotNumber uint64, r slot.Range, peers []slot.PeerID) ([]slot.FigureRow, bool)
}

// compareFigures compares what the owners have published with what they have signed, and computes
// again the figures of the contributor that has shown a whole frame. It costs no message more. What
// it cannot check it leaves: nothing waits for figures.
func (j *job) compareFigures() {
	for k, s := range j.segments {
		place := j.places[k]
		if place >= len(j.work.Figures) || j.cfg.Figures == nil {
			return
		}
		peers := make([]slot.PeerID, len(s.Offers))
		for i, o := range s.Offers {
			peers[i] = o.Peer
		}
		rows, ok := j.cfg.Figures.Of(s.Slot, s.Range, peers)
		switch {
		case !ok || slot.FiguresRoot(rows) != j.work.Figures[place]:
		case s.frameOf >= 0:
			if err := j.compareFrame(s, place, rows); err != nil {
				j.cfg.Logger.Debug("the figures of a frame were not checked", "owner", s.Owner, "err", err)
			}
		}
	}
}

// compareFrame computes the figures of the whole frame that was drawn.
func (j *job) compareFrame(s *segment, place int, rows []slot.FigureRow) error {
	s.mu.Lock()
	shown, ok := s.shown[s.frameOf][s.frame]
	s.mu.Unlock()
	if !ok {
		return errors.New("its contributor has not shown it")
	}
	outcome, err := j.openOutcome(s, s.frame)
	if err != nil {
		return err
	}
	i := int((s.frame.Begin - s.Range.Begin) / uint64(j.cfg.Params.FrameElements))
	published := audit.Published{Row: rows[i], Path: slot.FigurePath(rows, i)}
	_, wrong, err := s.CheckFigures(published, s.frameOf, shown, outcome)
	if err != nil || wrong == "" {
		return err
	}
	proof, err := s.ProveFigures(published, s.frameOf, shown, outcome)
	if err != nil {
		return err
	}
	j.cfg.Logger.Warn("an owner has published a false figure", "owner", s.Owner, "slot", s.Slot,
		"contributor", s.Offers[s.frameOf].Peer, "figure", wrong)
	j.found = append(j.found, membership.FalseSegment{Segment: place, Figures: true, Proof: proof.Append(nil)})
	return nil
}

// FalseFigure says whether a proof shows that an owner has published a false figure of what it
// states.
func (c Checker) FalseFigure(owner slot.PeerID, s wire.Segment, proof []byte) error {
	p, err := audit.ReadProof(proof)
	if err != nil {
		return err
	}
	st := p.Statement
	if p.Kind != audit.FalseFigures || st.Owner != owner || st.Range != s.Range || st.Root != s.Segment.Root ||
		p.Figures != s.Figures || s.Inputs != wire.Inputs(st.Slot, st.Fragment, st.Usual, st.Range, st.Offers) {
		return errOther
	}
	return c.convicts(p, owner)
}
