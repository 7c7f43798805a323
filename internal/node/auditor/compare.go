package auditor

import (
	"bytes"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/allreduce/audit"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// difference computes a sample of a segment again. Where the outcome that is held differs, it
// returns a proof against the owner. Where a contributor has not shown its part, or lies, nothing
// is proven: what take keeps was checked.
func (a *Auditor) difference(s *segment, r slot.Range) (proof []byte, err error) {
	openings, ok := s.openings(r)
	if !ok {
		return nil, nil // a contributor is reported
	}
	want, err := s.Recompute(r, openings)
	if err != nil {
		return nil, err
	}
	held, err := a.readOutcome(s, r)
	if err != nil || bytes.Equal(held, want) {
		return nil, err
	}
	// unlike held it is verified: it may be the disk that has changed
	outcome, err := a.openOutcome(s, r)
	if err != nil {
		return nil, err
	}
	got, err := s.CheckOutcome(outcome)
	if err != nil {
		return nil, err
	}
	block, differs := s.Compare(r, want, got)
	if !differs {
		return nil, nil
	}
	p, err := s.ProveOutcome(block, openings, outcome)
	if err != nil {
		return nil, err
	}
	a.cfg.Logger.Warn("an outcome is not that of its contributions", "owner", s.Owner, "slot", s.Slot,
		"elements", block)
	return p.Append(nil), nil
}

// readOutcome reads a range of the outcome that is held, as it is on disk.
func (a *Auditor) readOutcome(s *segment, r slot.Range) ([]byte, error) {
	held, err := a.cfg.Segment(s.Root)
	if err != nil {
		return nil, err
	}
	defer held.Close()
	return readRange(held, s, r, nil)
}

// readRange reads a range of an outcome into room, as it is on disk.
func readRange(held Segment, s *segment, r slot.Range, room []byte) ([]byte, error) {
	begin, end, err := s.OutcomeBytes(r)
	if err != nil {
		return nil, err
	}
	b := slices.Grow(room[:0], int(end-begin))[:end-begin]
	_, err = held.ReadAt(b, begin)
	return b, err
}

// openOutcome opens a range of the outcome that is held.
func (a *Auditor) openOutcome(s *segment, r slot.Range) (audit.Opening, error) {
	held, err := a.cfg.Segment(s.Root)
	if err != nil {
		return audit.Opening{}, err
	}
	defer held.Close()
	hashes, err := held.Hashes()
	if err != nil {
		return audit.Opening{}, err
	}
	frame, err := held.Frame(nil, int64((r.Begin-s.Range.Begin)/uint64(a.cfg.Params.FrameElements)), hashes)
	if err != nil {
		return audit.Opening{}, err
	}
	return s.OpenOutcome(hashes, frame, r)
}
