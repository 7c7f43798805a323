package membership

import (
	"errors"
	"reflect"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	canonical "github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// TestDraftsByPlan is what a peer makes of drafts without the offers of a plan.
func TestDraftsByPlan(t *testing.T) {
	for name, c := range map[string]struct {
		change func(m *Machine, d *wire.Draft)
		want   error
	}{
		"the offers of its plan":    {func(*Machine, *wire.Draft) {}, nil},
		"no plan":                   {func(m *Machine, _ *wire.Draft) { m.open.last = nil }, ErrLacks},
		"another plan":              {func(_ *Machine, d *wire.Draft) { d.ByPlan.Group[0]++ }, ErrLacks},
		"offers it has no proof of": {func(m *Machine, _ *wire.Draft) { clear(m.proofs.known) }, ErrLacks},
		"more offers than planned": {
			func(_ *Machine, d *wire.Draft) { d.ByPlan.Used = slot.Bitmap{7} }, chain.ErrInvalid,
		},
		"other contributions": {
			func(_ *Machine, d *wire.Draft) { d.ByPlan.Used = slot.Bitmap{1} }, canonical.ErrMalformed,
		},
		"another record": {
			func(_ *Machine, d *wire.Draft) { d.Record.StateRoot[0]++ }, canonical.ErrMalformed,
		},
		"segments that do not fit": {func(m *Machine, d *wire.Draft) {
			d.ByPlan.Segments[0].Contributors = slot.Bitmap{0xff}
			r := d.Record
			r.Contributions, r.Segments = m.open.last.Offers, d.ByPlan.Segments
			d.Hash = r.Hash()
		}, canonical.ErrMalformed},
	} {
		l := labOf(t, "ABC")
		m := l.peers[0].m
		r := stepRecord(m, "AB")
		plan := slot.Plan{Ref: m.open.ref, Slot: r.Slot, Offers: r.Contributions}
		m.open.last = &plan
		m.proofs.noteAll(r.Contributions, l.proofs(r.Contributions))
		whole := draftOf(0, r, m.proofs.list(r.Contributions))
		brief, ok := byPlan(whole, &plan)
		if !ok {
			t.Fatal("the draft is not one of its plan")
		}
		brief.ByPlan.Segments = append([]slot.Segment{}, brief.ByPlan.Segments...)
		c.change(m, &brief)
		got, err := m.participant.wholeDraft(brief)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if c.want == nil && (got.ByPlan != nil || got.Vote != whole.Vote ||
			!reflect.DeepEqual(got.Proofs, whole.Proofs) ||
			string(got.Record.Append(nil)) != string(whole.Record.Append(nil))) {
			t.Errorf("%s:\n%+v, not\n%+v", name, got, whole)
		}
	}
}
