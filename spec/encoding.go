package spec

import (
	"errors"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// RunID is the hash of a settled spec: the name that everything but discovery goes by.
func (s Spec) RunID() slot.Root { return slot.Hash(s.Append([]byte("p2pdiloco/spec/1"))) }

// Append appends the canonical encoding of a settled spec.
func (s Spec) Append(b []byte) []byte {
	fields := table
	for last := len(fields) - 1; fields[last].added() && fields[last].Text(s) == ""; last-- {
		fields = fields[:last]
	}
	b = wire.AppendU16(b, uint16(len(fields)))
	for _, f := range fields {
		b = wire.AppendBytes(wire.AppendBytes(b, f.Name), f.Text(s))
	}
	return s.Layout.Append(b)
}

// Parse reads a settled spec as another peer encoded it. The error is a *wire.VersionError if it is
// of another protocol version.
func Parse(b []byte) (Spec, error) {
	if v := protocolOf(b); v != ProtocolVersion && v != "" {
		return Spec{}, &wire.VersionError{What: "the run's spec", Theirs: v}
	}
	var s Spec
	r := wire.NewReader(b)
	n := int(r.U16())
	if r.Err() == nil && (n > len(table) || n < len(table) && !table[n].added()) {
		r.Fail("run spec with %d fields, not %d: another version of p2pdiloco", n, len(table))
	}
	for i := 0; i < n && r.Err() == nil; i++ {
		f := table[i]
		if name := string(r.Bytes(64)); r.Err() == nil && name != f.Name {
			r.Fail("run spec field %.64q where %q was expected", name, f.Name)
		}
		v := string(r.Bytes(4096))
		if v == "" && (!f.mayLack() || f.added() && i == n-1) {
			r.Fail("run spec without %s", f.Name)
		}
		if r.Err() == nil && v != "" {
			if err := f.Set(&s, v); err != nil || f.Text(s) != v {
				r.Fail("run spec field %s = %.64q", f.Name, v)
			}
		}
	}
	s.Layout = slot.ReadLayout(r)
	if err := r.Done(); err != nil {
		return Spec{}, err
	}
	return s, errors.Join(s.check(false), s.Layout.Validate())
}

// protocolOf returns the protocol version of a settled spec, or an empty text if it cannot be read.
// It is the third field of every version.
func protocolOf(b []byte) (version string) {
	r := wire.NewReader(b)
	r.U16()
	for _, f := range table[:3] {
		if name := string(r.Bytes(64)); name != f.Name {
			return ""
		}
		version = string(r.Bytes(64))
	}
	return version
}

// Adopt checks the fields given here against a settled spec that peer p holds, and names the first
// that differs.
func (s Spec) Adopt(theirs Spec, p trainer.PeerID) error {
	given, there := s.Fields(), theirs.Fields()
	for _, f := range table {
		if v, ok := given[f.Name]; ok && v != there[f.Name] {
			return &Error{Field: f.Name, Here: v, There: there[f.Name], Peer: p}
		}
	}
	if d := s.Layout.Diff(theirs.Layout); d != "" && len(s.Layout) > 0 {
		return &Error{Field: "layout", Here: "the trainer's", There: "another (" + d + ")", Peer: p}
	}
	return nil
}
