package allreduce

import (
	"encoding/binary"
	"fmt"

	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

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
