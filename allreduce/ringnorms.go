package allreduce

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// Clipping takes the norms of all contributions to a frame before the first of them is added. So
// where it is on, the squared norms of all frames go round first: 8 bytes a frame and peer. No
// partial result is begun before all are known, and norms go ahead of all else, so that a peer that
// gets a partial result has them.

// learn takes in the own norms, which the own contribution commits to.
func (g *ring) learn() {
	if !g.r.engine.cfg.Params.Clip {
		return
	}
	norms := make([]float64, g.r.grid.Frames)
	for f, leaf := range g.r.own.leaves {
		norms[f] = leaf.NormSq
	}
	g.heardOf(g.place, norms)
}

// heardOf keeps a peer's norms, and sends them on unless the next peer is the one they are of. With
// the last of them the own factors are known. It is false if they were known.
func (g *ring) heardOf(place int, norms []float64) bool {
	g.mu.Lock()
	defer g.wake()
	defer g.mu.Unlock()
	if g.mu.norms[place] != nil {
		return false
	}
	g.mu.norms[place] = norms
	if len(g.circle) > 1 && g.circle.Next(g.place) != place {
		g.mu.queue = append(g.mu.queue, parcel{kind: kindNorms, index: place})
	}
	if len(g.mu.norms) < len(g.circle) {
		return true
	}
	g.clip = make([]float32, g.r.grid.Frames)
	of := make([]float64, 0, len(g.circle))
	used := make([]float32, len(g.circle))
	for f := range g.clip {
		of = of[:0]
		for i := range g.r.offers { // in peer-ID order
			if n := g.mu.norms[i]; n != nil {
				of = append(of, n[f])
			}
		}
		kernel.Mul(used, g.scales, kernel.ClipScales(of))
		g.clip[f] = used[g.self]
	}
	close(g.known)
	return true
}

func appendNorms(b []byte, norms []float64) []byte {
	for _, v := range norms {
		b = binary.BigEndian.AppendUint64(b, math.Float64bits(v))
	}
	return b
}

// parseNorms reads what appendNorms wrote. The sum of so many bounded squares is finite and not
// negative.
func parseNorms(b []byte) ([]float64, error) {
	norms := make([]float64, len(b)/8)
	for f := range norms {
		v := math.Float64frombits(binary.BigEndian.Uint64(b[8*f:]))
		if !(v >= 0) || math.IsInf(v, 1) || math.Signbit(v) {
			return nil, fmt.Errorf("%w: a norm of %v", errBadBytes, v)
		}
		norms[f] = v
	}
	return norms, nil
}

// readNorms reads the norms of a peer.
func (g *ring) readNorms(l *link, h header) error {
	place := int(h.Index)
	inside := false
	for _, p := range g.circle {
		inside = inside || p == place && p != g.place
	}
	if !g.r.engine.cfg.Params.Clip || !inside || int(h.Length) != 8*g.r.grid.Frames {
		return fmt.Errorf("%w: norms of place %d, %d bytes", errBadBytes, place, h.Length)
	}
	b := make([]byte, h.Length)
	if err := l.readPayload(b, nil); err != nil {
		return err
	}
	norms, err := parseNorms(b)
	if err == nil && !g.heardOf(place, norms) {
		err = fmt.Errorf("%w: norms of place %d came twice", errBadBytes, place)
	}
	return err
}

// greeting is the hello and the table in one write.
func (g *ring) greeting() []byte {
	plan := g.r.Plan()
	h := hello{
		Run: g.r.engine.cfg.Run, Ref: plan.Ref, Revision: plan.Revision, Group: g.r.group, Ring: true,
		Round: g.key,
	}
	return append(h.Append(nil), g.table()...)
}

// table says what is here of each piece.
func (g *ring) table() (b []byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range g.pieces {
		b = wire.AppendU32(b, uint32(p.have-p.first))
	}
	return b
}

// readTable reads the other side's, as frames of the vector.
func (g *ring) readTable(l *link) ([]int, error) {
	b := make([]byte, 4*len(g.pieces))
	if err := l.readPayload(b, nil); err != nil {
		return nil, err
	}
	has := make([]int, len(g.pieces))
	for i, p := range g.pieces {
		n := binary.BigEndian.Uint32(b[4*i:])
		if n > uint32(p.last-p.first) {
			return nil, fmt.Errorf("%w: %d frames of a piece of %d", errBadBytes, n, p.last-p.first)
		}
		has[i] = p.first + int(n)
	}
	return has, nil
}
