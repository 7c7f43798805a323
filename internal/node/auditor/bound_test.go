package auditor

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// No sample is drawn here, so only the bound leads to one: a frame is longer than the norms that
// the contributors have committed to allow, or has no values. An elector that does not know
// these norms finds only what has no values, and an honest frame is not looked at.
func TestAFrameAboveItsBoundIsSampled(t *testing.T) {
	const frame = 3 // of 5; the first one of the second segment is 2
	set := func(all []byte, i int, x float32) {
		binary.LittleEndian.PutUint32(all[4*(frame*frameElements+i):], math.Float32bits(x))
	}
	for name, c := range map[string]struct {
		lie     func(all []byte)
		unknown bool // what the contributor has committed to
		found   bool
	}{
		"honest":           {lie: func([]byte) {}},
		"too long":         {lie: func(all []byte) { set(all, 7, 1e4) }, found: true},
		"NaN":              {lie: func(all []byte) { set(all, 7, float32(math.NaN())) }, found: true},
		"shorter":          {lie: func(all []byte) { set(all, 7, 0) }},
		"unknown":          {lie: func(all []byte) { set(all, 7, 1e4) }, unknown: true},
		"NaN, and unknown": {lie: func(all []byte) { set(all, 7, float32(math.NaN())) }, unknown: true, found: true},
	} {
		h := newHouse(t)
		e := h.elector(t, h.reduceBut(c.lie))
		e.cfg.Samples = 0
		e.cfg.Leaves = func(slot.Offer) ([]slot.FrameLeaf, bool) { return h.own.Leaves(), !c.unknown }
		got := e.audit(t)
		if (len(got.False) == 1) != c.found || len(got.False) > 1 || len(got.Unshown) > 0 {
			t.Errorf("%s: %d lies, %v is missing", name, len(got.False), got.Unshown)
		} else if c.found && got.False[0].Segment != 1 {
			t.Errorf("%s: in segment %d", name, got.False[0].Segment)
		}
		e.Close()
	}
}
