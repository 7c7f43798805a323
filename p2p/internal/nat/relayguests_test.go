package nat

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// TestGuests has peers come to a relay with 8 places, members by their names.
func TestGuests(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		name    string
		members int
		come    string // who comes, at which site, and gets a place if there is a +
	}{
		{"no members", 0, "s1@a+ s2@a+ s3@a+ s4@a+ s5@a- s6@b+ s7@b+ s8@c+ s9@c+ s10@d- m1@e-"},
		{"few members", 2, "s1@a+ s2@b+ s3@c+ s4@d+ s5@e+ s6@f+ s7@g- m1@a+ m2@a+ m3@a-"},
		{"many members", 100, "s1@a+ s2@b+ s3@c+ s4@d+ s5@e- m1@a+ m2@a+ m3@a+ m4@a+ m5@a-"},
		{"members first", 100, "m1@a+ m2@a+ m3@a+ m4@a+ m5@a+ m6@a+ m7@a+ s1@b+ s2@b- m8@a-"},
		{"renewed", 0, "s1@a+ s2@a+ s3@a+ s4@a+ s1@a+ s4@a+ s5@a-"},
	} {
		g := guests{limit: 8}
		rules := guestRules{
			members: c.members,
			member:  func(p peer.ID) bool { return p[0] == 'm' },
			here:    func(peer.ID) bool { return true },
		}
		for come := range strings.FieldsSeq(c.come) {
			id, rest, _ := strings.Cut(come, "@")
			if got, want := g.admit(peer.ID(id), rest[:1], rules, now), rest[1:] == "+"; got != want {
				t.Errorf("%s: %s gets a place: %v", c.name, come, got)
			}
		}
	}
}

// TestGuestsLeave: who is gone, or does not come again in time, has no place.
func TestGuestsLeave(t *testing.T) {
	g, now := guests{limit: 2}, time.Now()
	gone := false
	rules := guestRules{
		member: func(peer.ID) bool { return false },
		here:   func(p peer.ID) bool { return !gone || p != "first" },
	}
	for i, c := range []struct {
		id   peer.ID
		at   time.Time
		gone bool
		want bool
	}{
		{"first", now, false, true},
		{"second", now.Add(relayReservation / 2), false, true},
		{"third", now.Add(relayReservation / 2), false, false},
		{"third", now.Add(relayReservation / 2), true, true},
		{"fourth", now.Add(relayReservation), true, false},
		{"fourth", now.Add(2 * relayReservation), true, true},
	} {
		gone = c.gone
		if got := g.admit(c.id, fmt.Sprint(i), rules, c.at); got != c.want {
			t.Errorf("%d: %s gets a place: %v", i, c.id, got)
		}
	}
}
