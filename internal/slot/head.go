package slot

import "github.com/p2pdiloco/p2pdiloco/internal/wire"

// Head is a record without its outcome or its decisions, which are most of its bytes. It has the
// record's hash, so a certificate proves it as well.
type Head struct {
	Record Record // without what Body stands for
	Body   Root   // hash of the rest
}

// Head returns the record's head.
func (c Record) Head() Head {
	const fields, each = 64, 160 // bytes, about
	n := len(c.Contributions) + len(c.Segments) + len(c.Decisions)
	h := Head{Record: c, Body: Hash(c.appendBody(append(make([]byte, 0, fields+n*each), "p2pdiloco/body/1"...)))}
	h.Record.Fragment, h.Record.Contributions, h.Record.Usual, h.Record.Segments = 0, nil, 0, nil
	h.Record.Key, h.Record.Decisions = Root{}, nil
	return h
}

// Hash is that of the record.
func (h Head) Hash() Root {
	const fields, member = 256, 80 // bytes, about
	n := len(h.Record.Members) + len(h.Record.Absent) + len(h.Record.Evicted)
	return Hash(h.Append(append(make([]byte, 0, fields+n*member), "p2pdiloco/record/2"...)))
}

// Append appends the canonical encoding.
func (h Head) Append(b []byte) []byte { return appendRoot(h.Record.appendHead(b), h.Body) }

func (c Record) appendHead(b []byte) []byte {
	b = appendRoot(b, c.Run)
	b = wire.AppendU64(b, c.Height)
	b = c.appendKind(b)
	b = appendRoot(b, c.Prev)
	b = wire.AppendU64(b, c.Slot)
	b = appendRoot(b, c.StateRoot)
	b = c.appendRoster(b)
	return wire.AppendU64(b, c.Work)
}

func readHead(r *wire.Reader) Record {
	c := Record{Run: readRoot(r), Height: r.U64()}
	graded := c.readKind(r)
	c.Prev, c.Slot, c.StateRoot = readRoot(r), r.U64(), readRoot(r)
	c.readRoster(r, graded)
	c.Work = r.U64()
	return c
}

func (c Record) appendBody(b []byte) []byte {
	if c.Kind == Step {
		b = wire.AppendU32(b, c.Fragment)
		b = wire.AppendU64(appendOffers(b, c.Contributions), c.Usual)
		b = appendSegments(b, c.Segments)
	}
	if c.Kind == Access {
		b = appendDecisions(appendRoot(b, c.Key), c.Decisions)
	}
	return b
}
