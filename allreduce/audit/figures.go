package audit

import (
	"errors"
	"fmt"
	"math"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// Published is what an owner has published of one frame of its segment (slot.FigureRow), with what
// leads from it to the root that it has signed. Norms and products are proven. The share that was
// trimmed is not, which would take the frames of all contributors, nor is what is said of the
// outcome before.
type Published struct {
	Row  slot.FigureRow
	Path []slot.Root // slot.FigurePath
}

// Root is the root that a row of the frame with this range leads to.
func (p Published) root(s *Segment, r slot.Range) (slot.Root, error) {
	at, err := s.within(r)
	if err != nil {
		return slot.Root{}, err
	}
	first, last := s.out.FramesOf(s.Range)
	root, ok := slot.FiguresRootFrom(p.Row, at.frame-first, last-first, p.Path)
	if !s.whole(at) || !ok || len(p.Row.Of) != len(s.Offers) {
		return root, fmt.Errorf("%w: they are no figures of this frame", ErrOpening)
	}
	return root, nil
}

// FalseFigure says what is false in the figures of one contributor's frame, and in the norm of that
// of the outcome, given both; empty: nothing is.
func FalseFigure(row slot.FigureRow, place int, contribution, outcome []float32) string {
	norm := kernel.NormSq(outcome)
	if math.IsNaN(norm) || math.IsInf(norm, 0) {
		return "" // no honest outcome: that is another proof
	}
	f := row.Of[place]
	for _, v := range []struct {
		what      string
		got, want float32
	}{
		{"norm of the outcome", row.Norm, allreduce.Rounded(norm)},
		{"norm", f.Norm, allreduce.Rounded(kernel.NormSq(contribution))},
		{"product with the outcome", f.Along, allreduce.Along(kernel.Dot(contribution, outcome), norm)},
	} {
		if math.Float32bits(v.got) != math.Float32bits(v.want) {
			return fmt.Sprintf("the %s is said to be %v, %v is true", v.what, v.got, v.want)
		}
	}
	return ""
}

// CheckFigures computes again what an owner has published of the frame of one contributor, of which
// openings of all of the frame are given. The root is that which must be in what the owner has
// signed; false is what is false, and empty where nothing is.
func (s *Segment) CheckFigures(p Published, place int, contribution, outcome Opening) (
	root slot.Root, wrong string, err error,
) {
	if place < 0 || place >= len(s.Offers) || contribution.Range != outcome.Range {
		return root, "", fmt.Errorf("%w: contributor %d, elements %d..%d", ErrOpening, place, contribution.Range.Begin,
			contribution.Range.End)
	}
	if root, err = p.root(s, outcome.Range); err != nil {
		return root, "", err
	}
	values, err := s.CheckContribution(place, contribution)
	if err != nil {
		return root, "", err
	}
	encoded, err := s.CheckOutcome(outcome)
	if err != nil {
		return root, "", err
	}
	reduced := make([]float32, len(values))
	if err := s.out.Codec.Decode(reduced, encoded); err != nil {
		return root, "", err // another proof convicts the owner
	}
	return root, FalseFigure(p.Row, place, values, reduced), nil
}

// ProveFigures proves that CheckFigures has found something. It fails with ErrProvesNothing where
// that is not so.
func (s *Segment) ProveFigures(p Published, place int, contribution, outcome Opening) (Proof, error) {
	root, _, err := s.CheckFigures(p, place, contribution, outcome)
	if err != nil {
		return Proof{}, fmt.Errorf("%w: %w", ErrProvesNothing, err)
	}
	proof := Proof{
		Kind: FalseFigures, Statement: s.Statement, Figures: root, Published: p, Place: uint32(place), Outcome: outcome,
		Openings: []Opening{contribution},
	}
	_, err = proof.Verify(s.Params)
	return proof, err
}

func (p Proof) verifyFigures(params allreduce.Params) ([]slot.PeerID, error) {
	s, err := New(params, p.Statement)
	if err != nil {
		return nil, err
	}
	root, wrong, err := s.CheckFigures(p.Published, int(p.Place), p.Openings[0], p.Outcome)
	switch {
	case err != nil:
		return nil, err
	case root != p.Figures:
		return nil, fmt.Errorf("%w: the figures do not lead to the root %s", ErrOpening, p.Figures.Short())
	case wrong == "":
		return nil, errors.New("the owner's figures are right")
	}
	return []slot.PeerID{s.Owner}, nil
}

func (p Proof) appendFigures(b []byte) []byte {
	b = append(p.Statement.Append(b), p.Figures[:]...)
	b = p.Published.Row.Append(wire.AppendU32(b, p.Place))
	b = slot.AppendRoots(wire.AppendU32(b, uint32(len(p.Published.Path))), p.Published.Path)
	return p.Openings[0].Append(p.Outcome.Append(b))
}

func (p *Proof) readFigures(r *wire.Reader) {
	p.Statement = ReadStatement(r)
	copy(p.Figures[:], r.Take(len(p.Figures)))
	p.Place = r.U32()
	p.Published = Published{slot.ReadFigureRow(r, len(p.Statement.Offers)), readPath(r, slot.MaxPath)}
	p.Outcome = ReadOpening(r, MaxFrameBytes)
	p.Openings = []Opening{ReadOpening(r, MaxFrameBytes)}
}
