package audit

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// values decodes frame f of what a peer has contributed.
func (w *world) values(t testing.TB, place, f int) []float32 {
	t.Helper()
	v := make([]float32, w.in.FrameLen(f))
	if err := w.in.Codec.Decode(v, w.in.Frame(w.own[place].Bytes(), f)); err != nil {
		t.Fatal(err)
	}
	return v
}

// rows are what an honest owner publishes.
func (w *world) rows(t testing.TB) (rows []slot.FigureRow) {
	t.Helper()
	first, last := w.out.FramesOf(w.Range)
	for f := first; f < last; f++ {
		outcome := w.decoded(f)
		norm := kernel.NormSq(outcome)
		row := slot.FigureRow{Norm: float32(math.Sqrt(norm))}
		for i := range w.own {
			c := w.values(t, i, f)
			row.Of = append(row.Of, slot.Figure{
				Norm: float32(math.Sqrt(kernel.NormSq(c))), Along: float32(kernel.Dot(c, outcome) / math.Sqrt(norm)),
				Before: slot.Unmeasured, Trimmed: uint16(i),
			})
		}
		rows = append(rows, row)
	}
	return rows
}

// published is the row of frame f with its path.
func (w *world) published(rows []slot.FigureRow, f int) Published {
	return Published{rows[f-w.first], slot.FigurePath(rows, f-w.first)}
}

func cloned(rows []slot.FigureRow) (all []slot.FigureRow) {
	for _, r := range rows {
		all = append(all, slot.FigureRow{Norm: r.Norm, Of: slices.Clone(r.Of)})
	}
	return all
}

// True figures convict nobody, and each false one that can be proven does, whatever the codec and
// the aggregator are.
func TestFiguresAreProven(t *testing.T) {
	eachKind(3000, 1024, func(name string, p allreduce.Params) {
		w := newWorld(t, p, noise(rand.New(rand.NewPCG(2, 1)), 3000, 4), 1, 3)
		frame := w.in.Elements(2, 3)
		honest := w.rows(t)
		for lie, change := range map[string]func(*slot.FigureRow){
			"":                         func(*slot.FigureRow) {},
			"norm of the outcome":      func(r *slot.FigureRow) { r.Norm *= 2 },
			"norm":                     func(r *slot.FigureRow) { r.Of[1].Norm = math.Nextafter32(r.Of[1].Norm, 0) },
			"product with the outcome": func(r *slot.FigureRow) { r.Of[1].Along = -r.Of[1].Along },
		} {
			rows := cloned(honest)
			change(&rows[1])
			proof, err := w.ProveFigures(w.published(rows, 2), 1, w.openings(t, frame)[1], w.opened(t, frame))
			if lie == "" {
				if !errors.Is(err, ErrProvesNothing) {
					t.Fatalf("%s: true figures are proven false: %v", name, err)
				}
				continue
			}
			if err != nil {
				t.Fatalf("%s: a false %s is not proven: %v", name, lie, err)
			}
			b := proof.Append(nil)
			if most := MaxProof(p, 4); len(b) > most {
				t.Errorf("%s: a proof of %d bytes, at most %d are said to be", name, len(b), most)
			}
			read, err := ReadProof(b)
			if err != nil {
				t.Fatal(err)
			}
			guilty, err := read.Verify(p)
			if err != nil || !slices.Equal(guilty, []slot.PeerID{w.Owner}) || read.Figures != slot.FiguresRoot(rows) {
				t.Errorf("%s: %s: it convicts %v of %s: %v", name, lie, guilty, read.Figures.Short(), err)
			}
		}
	})
}

// A proof with other bytes, paths or places than those that lead to what was signed proves nothing.
func TestFalseProofsOfFigures(t *testing.T) {
	p := testParams(3000, 1024)
	w := newWorld(t, p, noise(rand.New(rand.NewPCG(2, 1)), 3000, 4), 1, 3)
	rows, frame := w.rows(t), w.in.Elements(2, 3)
	rows[1].Of[1].Norm *= 2
	good, err := w.ProveFigures(w.published(rows, 2), 1, w.openings(t, frame)[1], w.opened(t, frame))
	if err != nil {
		t.Fatal(err)
	}
	other := newWorld(t, p, noise(rand.New(rand.NewPCG(3, 1)), 3000, 4), 1, 3)
	for name, change := range map[string]func(*Proof){
		"another root":          func(q *Proof) { q.Figures[0]++ },
		"the row of the first":  func(q *Proof) { q.Published.Row = rows[0] },
		"a path too long":       func(q *Proof) { q.Published.Path = append(q.Published.Path, slot.Root{}) },
		"a path too short":      func(q *Proof) { q.Published.Path = nil },
		"another contributor":   func(q *Proof) { q.Place = 2 },
		"no contributor":        func(q *Proof) { q.Place = 1 << 31 },
		"one figure too few":    func(q *Proof) { q.Published.Row.Of = q.Published.Row.Of[:3] },
		"another outcome":       func(q *Proof) { q.Outcome = other.opened(t, frame) },
		"another contribution":  func(q *Proof) { q.Openings = other.openings(t, frame)[1:2] },
		"the frame before":      func(q *Proof) { q.Openings = w.openings(t, w.in.Elements(1, 2))[1:2] },
		"a part of the frame":   func(q *Proof) { part(t, w, q, slot.Range{Begin: 2048, End: 2304}) },
		"another slot":          func(q *Proof) { q.Statement.Slot++ },
		"offers of other peers": func(q *Proof) { q.Statement.Offers = other.Offers },
		"a true figure":         func(q *Proof) { q.Place, q.Openings = 0, w.openings(t, frame)[:1] },
	} {
		q := good
		q.Published.Path = slices.Clone(q.Published.Path)
		change(&q)
		if guilty, err := q.Verify(p); !errors.Is(err, ErrProvesNothing) {
			t.Errorf("%s: it convicts %v, %v", name, guilty, err)
		}
	}
}

func part(t *testing.T, w *world, q *Proof, r slot.Range) {
	q.Outcome, q.Openings = w.opened(t, r), w.openings(t, r)[1:2]
}

// FuzzReadFigureProof reads and verifies foreign bytes: what convicts an owner holds other figures
// than it has signed, for it is honest.
func FuzzReadFigureProof(f *testing.F) {
	w := fuzzWorld(f, codec.Sign)
	rows := w.rows(f)
	signed := slot.FiguresRoot(rows)
	frame := w.in.Elements(1, 2)
	proof := Proof{
		Kind: FalseFigures, Statement: w.Statement, Figures: signed, Published: w.published(rows, 1), Place: 1,
		Outcome: w.opened(f, frame), Openings: w.openings(f, frame)[1:2],
	}
	f.Add(uint16(0), uint8(0), proof.Append(nil))
	f.Add(uint16(500), uint8(3), proof.Append(nil))
	f.Add(uint16(700), uint8(9), proof.Append(nil)[:60])
	f.Fuzz(func(t *testing.T, at uint16, change uint8, b []byte) {
		if len(b) == 0 {
			return
		}
		b = change1(slices.Clone(b), int(at), change)
		p, err := ReadProof(b)
		if err != nil {
			if !errors.Is(err, wire.ErrMalformed) {
				t.Fatalf("error %v does not wrap wire.ErrMalformed", err)
			}
			return
		}
		if !bytes.Equal(p.Append(nil), b) {
			t.Fatal("what was read encodes to other bytes")
		}
		guilty, err := p.Verify(w.Params)
		if (err == nil) == (len(guilty) == 0) || err != nil && !errors.Is(err, ErrProvesNothing) {
			t.Fatalf("it convicts %v, %v", guilty, err)
		}
		if err == nil && p.Kind == FalseFigures && p.Figures == signed &&
			bytes.Equal(p.Statement.Append(nil), w.Statement.Append(nil)) {
			t.Fatalf("the honest %v are convicted", guilty)
		}
	})
}
