package chain

import (
	"slices"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// within says whose offers, of those of these peers, are within the share.
func (w world) within(peers string, before ...slot.PeerID) (names string) {
	for _, o := range w.WithinShare(w.record(peers, seatElements).Contributions, before...) {
		names += string(o.Peer)
	}
	return names
}

func shareRules(share uint64, least int) Rules {
	rules := seatRules(1)
	rules.NewcomerShare, rules.MinPeers = share, least
	return rules
}

func TestNewcomersShareOfAPlan(t *testing.T) {
	for _, c := range []struct {
		name, members string
		share         uint64
		min           int
		offers, want  string
		before        []slot.PeerID
	}{
		{"half of the others", "A32 B32 C32 D32 w0 x0 y0 z0", 500, 1, "abcdwxyz", "abcdwx", nil},
		{"fewer others, fewer newcomers", "A32 B32 C32 D32 w0 x0 y0 z0", 500, 1, "abcwxyz", "abcw", nil},
		{"one is always taken", "A32 B32 C32 D32 w0 x0", 1, 1, "awx", "aw", nil},
		{"and without others", "A32 B32 C32 D32 w0 x0", 500, 1, "wx", "w", nil},
		{"as many as it takes", "A32 B32 C32 D32 w0 x0 y0 z0", 500, 4, "awxyz", "awxy", nil},
		{"most credit first", "A32 B32 C32 D32 w0 x8 y16 z7", 500, 1, "abcdwxyz", "abcdxy", nil},
		{"who earned a seat is no newcomer", "A32 B32 C32 D32 w32 x31 y0 z0", 500, 1, "abcdwxyz", "abcdwxy", nil},
		{"an elector with little credit neither", "A32 B32 C32 D0 w0 x0 y0", 500, 1, "abcdwxy", "abcdwx", nil},
		{"three have a share as well", "A32 B32 C32 w0 x0 y0 z0", 500, 1, "abcwxyz", "abcw", nil},
		{"who was there stays", "A32 B32 C32 D32 w9 x0 y0 z0", 500, 1, "abcdwxyz", "abcdwz", []slot.PeerID{"z"}},
		{"and uses it up", "A32 B32 C32 D32 w9 x0 y0 z0", 500, 1, "abcdwxyz", "abcdyz", []slot.PeerID{"z", "y"}},
		{"two take everybody", "A32 B8 w0 x0 y0 z0", 500, 1, "abwxyz", "abwxyz", nil},
	} {
		w := found(t, shareRules(c.share, c.min), c.members)
		if got := w.within(c.offers, c.before...); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	crash := seatRules(1)
	crash.Byzantine = false
	if got := found(t, crash, "A0 B0 C0 D0 w0 x0").WithinShare(make([]slot.Offer, 9)); len(got) != 9 {
		t.Errorf("in trust crash a plan takes %d of 9", len(got))
	}
	w := found(t, seatRules(1), "A32 B32 C32 D0 w0 x1")
	few := found(t, seatRules(1), "A32 B32 C0 w0")
	for p, want := range map[slot.PeerID]bool{"a": true, "d": true, "w": false, "x": true, "nobody": false} {
		if w.MayOwn(p) != want {
			t.Errorf("%s may own pieces: %v", string(p), !want)
		}
	}
	if !few.MayOwn("w") {
		t.Error("with three electors a newcomer may not own pieces")
	}
}

// Strangers that earn nothing do not keep others out: newcomers of equal credit take turns.
func TestNewcomersTakeTurns(t *testing.T) {
	w := found(t, shareRules(500, 1), "A32 B32 C32 x0 y0 z0")
	taken := ""
	for range 9 {
		names := w.within("abcxyz")
		r := w.record(names, seatElements)
		for i, o := range r.Contributions {
			r.Contributions[i].NormSq = 1
			if o.Peer != "z" && o.Peer > "c" { // z alone is honest
				r.Contributions[i].NormSq = 100
			}
		}
		if got := w.list(r, "abcxyz"); strings.Contains(got, ErrInvalid.Error()) {
			t.Fatal(got)
		}
		taken += names[3:] + " "
	}
	if taken != "x y z z z z xyz xyz xyz " { // with four contributions z is no newcomer any more
		t.Errorf("newcomers are taken in the order %s", taken)
	}
}

// A step is judged by the record with which its slot began, whatever was decided since: each set
// has few newcomers beside the others of that very set.
func TestCheckShareOfEachSet(t *testing.T) {
	for _, c := range []struct {
		name, began string
		middle      string // the turns of a record in mid-slot; "": none
		share       uint64
		min         int
		sets        []string
		want        string // part of the error; "": none
	}{
		{"within", "A32 B32 C32 D32 w0 x0", "", 500, 1, []string{"abcdwx"}, ""},
		{"one too many", "A32 B32 C32 D32 w0 x0 y0", "", 500, 1, []string{"abcdwxy"}, "3 newcomers beside 4 others; 2"},
		{
			"in one set", "A32 B32 C32 D32 w0 x0", "", 500, 1,
			[]string{"abcdwx", "abcwx"},
			"2 newcomers beside 3 others; 1",
		},
		{"each by itself", "A32 B32 C32 D32 w0 x0", "", 500, 1, []string{"abcdwx", "abcw", "bcx"}, ""},
		{"one is always taken", "A32 B32 C32 w0", "", 1, 1, []string{"w"}, ""},
		{"as many as it takes", "A32 B32 C32 w0 x0 y0", "", 1, 4, []string{"awxy"}, ""},
		{"and no more", "A32 B32 C32 w0 x0 y0 z0", "", 1, 4, []string{"awxyz"}, "4 newcomers beside 1 others; 3"},
		{"credit for a seat is enough", "A32 B32 C32 w32 x0", "", 500, 1, []string{"abcwx"}, ""},
		{"two bound nobody", "A32 B8 w0 x0 y0 z0", "", 500, 1, []string{"wxyz"}, ""},
		{"listed since", "A32 B32 C32 w0", "abcwx", 500, 1, []string{"abcwx"}, "2 newcomers beside 3 others; 1"},
		{"dropped since", "A32 B32 C32 D32 w0 x0", "abcwx", 500, 1, []string{"abcdwx"}, ""},
		{"three since", "A32 B8 w8 x0 y0", "abWxy", 500, 1, []string{"abwxy"}, ""},
	} {
		w := found(t, shareRules(c.share, c.min), c.began)
		if c.middle != "" {
			if got := w.list(w.record("", 0), c.middle); strings.Contains(got, ErrInvalid.Error()) {
				t.Fatal(c.name, got)
			}
		}
		names := slices.Sorted(slices.Values(strings.Split(strings.Join(c.sets, ""), "")))
		r := w.record(strings.Join(slices.Compact(names), ""), seatElements)
		r.Segments = nil
		for i, set := range c.sets {
			at := slot.Range{Begin: uint64(i), End: uint64(i) + 1}
			s := slot.Segment{Range: at, Contributors: slot.NewBitmap(len(names))}
			for j, o := range r.Contributions {
				if strings.Contains(set, string(o.Peer)) {
					s.Contributors.Set(j)
				}
			}
			r.Segments = append(r.Segments, s)
		}
		switch err := w.checkSets(r, 0); {
		case c.want == "" && err != nil, c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		// what leaders list, and what owners go on with, is never refused
		share, all := w.Share(r.Contributions), slot.NewBitmap(len(r.Contributions))
		list := w.WithinShare(r.Contributions)
		for i, o := range r.Contributions {
			if slices.Contains(list, o) {
				all.Set(i)
			}
		}
		if !share.Holds(all) && len(share.newcomers) > 0 {
			t.Errorf("%s: a leader lists too many", c.name)
		}
		for _, s := range r.Segments {
			if set := share.Within(s.Contributors, func(int) bool { return false }); !share.Holds(set) || share.Holds(
				s.Contributors) && !slices.Equal(set, s.Contributors) {
				t.Errorf("%s: an owner goes on with %08b of %08b", c.name, set, s.Contributors)
			}
		}
	}
}
