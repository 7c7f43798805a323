package slot

import (
	"math"

	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// Figures say who contributed what to a reduced segment. Its owner makes a row of each frame.
//
// Numbers of 32 bits are sums in float64 (kernel.Dot) that were rounded once, at the end.

// FigureRow is what an owner publishes of one frame.
type FigureRow struct {
	Norm float32  // of the frame of the outcome, as everybody decodes it
	Of   []Figure // of each contributor, in the order of their peers
}

// Figure is what an owner publishes of one contributor's frame.
type Figure struct {
	Norm float32 // its Euclidean norm
	// its scalar product with the frame of the outcome, over the norm of that one; 0 where that is
	// zero
	Along   float32
	Trimmed uint16 // share of the coordinates that an aggregator left out, of FigureScale
}

// FigureScale is the Trimmed of a contributor that was left out everywhere.
const FigureScale = 10000

const figureSize = 2*4 + 2

// Valid says whether an honest owner could publish these numbers, whatever the bytes are.
func (r FigureRow) Valid() bool {
	ok := r.Norm >= 0 && finite(r.Norm)
	for _, f := range r.Of {
		ok = ok && f.Norm >= 0 && finite(f.Norm) && finite(f.Along) && f.Trimmed <= FigureScale
	}
	return ok
}

func finite(v float32) bool { return v-v == 0 }

// FigureRowSize is the number of bytes of a row about so many contributors.
func FigureRowSize(contributors int) int { return 4 + contributors*figureSize }

// Append appends the canonical encoding.
func (r FigureRow) Append(b []byte) []byte {
	b = appendFloat(b, r.Norm)
	for _, f := range r.Of {
		b = appendFloat(appendFloat(b, f.Norm), f.Along)
		b = append(b, byte(f.Trimmed>>8), byte(f.Trimmed))
	}
	return b
}

// ReadFigureRow reads what Append wrote of so many contributors. Any bits are some number: Valid
// says whether they make sense.
func ReadFigureRow(r *wire.Reader, contributors int) FigureRow {
	row := FigureRow{Norm: readFloat(r), Of: make([]Figure, contributors)}
	for i := range row.Of {
		f := &row.Of[i]
		f.Norm, f.Along = readFloat(r), readFloat(r)
		if b := r.Take(2); len(b) == 2 {
			f.Trimmed = uint16(b[0])<<8 | uint16(b[1])
		}
	}
	return row
}

func appendFloat(b []byte, v float32) []byte { return wire.AppendU32(b, math.Float32bits(v)) }

func readFloat(r *wire.Reader) float32 { return math.Float32frombits(r.U32()) }
