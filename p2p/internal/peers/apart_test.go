package peers

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

func TestApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const id = peer.ID("a peer")
		a := newApart(func(p peer.ID) bool { return p == "a member" })
		began := time.Now()
		for _, err := range []error{nil, context.Canceled, context.DeadlineExceeded} {
			if a.note(id, began, err); a.has(id) {
				t.Fatalf("a dial that ended at once with %v says something of the peer", err)
			}
		}
		time.Sleep(apartPatience)
		if a.note(id, began, context.DeadlineExceeded); !a.has(id) {
			t.Error("a dial that was waited for in vain does not count")
		}
		if a.connected(id); a.has(id) {
			t.Error("a peer that has connected is apart")
		}
		if a.note(id, time.Now(), errors.New("no route")); !a.has(id) {
			t.Error("a dial that failed does not count")
		}
		if time.Sleep(apartTerm); a.has(id) {
			t.Error("a failure counts for ever")
		}
		if !a.due(id) || a.due(id) {
			t.Error("a peer is not dialled again, or twice at once")
		}
		if time.Sleep(apartAgain); !a.due(id) {
			t.Error("a peer is not dialled again later")
		}
		for i := range 3 * maxApart {
			a.note(peer.ID(rune(i)), began, errors.New("no route"))
			a.due(peer.ID(rune(i)))
		}
		if len(a.mu.since) > maxApart || len(a.mu.again) > maxApart {
			t.Errorf("%d and %d peers are remembered", len(a.mu.since), len(a.mu.again))
		}
	})
}

// However many peers that are not there are announced and dialled, what is known of a member stays:
// messages to it would wait for a dial again.
func TestAMemberStaysApart(t *testing.T) {
	a := newApart(func(p peer.ID) bool { return p == "a member" })
	began, err := time.Now(), errors.New("no route")
	a.note("a member", began, err)
	for i := range 3 * maxApart {
		a.note(peer.ID(rune(i)), began, err)
	}
	if !a.has("a member") || len(a.mu.since) > maxApart {
		t.Errorf("a member counts as apart: %v, among %d", a.has("a member"), len(a.mu.since))
	}
}
