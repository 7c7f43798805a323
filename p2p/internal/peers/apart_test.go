package peers

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/p2pdiloco/p2pdiloco/internal/sim"
)

func TestApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const id = peer.ID("a member")
		n := dials(t, sim.New(t, 1, time.Millisecond), 0, DialConfig{Every: 30 * time.Second})
		d := n.Dialer
		n.SetMembers(map[peer.ID]struct{}{id: {}})
		began := time.Now()
		for _, err := range []error{nil, context.Canceled, context.DeadlineExceeded} {
			if d.note(id, began, err); d.Apart(id) {
				t.Fatalf("a dial that ended at once with %v says something of the peer", err)
			}
		}
		time.Sleep(failurePatience)
		if d.note(id, began, context.DeadlineExceeded); !d.Apart(id) {
			t.Error("a dial that was waited for in vain does not count")
		}
		if d.connected(id, time.Now()); d.Apart(id) {
			t.Error("a peer that has connected is apart")
		}
		if d.note(id, time.Now(), errors.New("no route")); !d.Apart(id) {
			t.Error("a dial that failed does not count")
		}
		if time.Sleep(failureTerm); d.Apart(id) {
			t.Error("a failure counts for ever")
		}
		again := func() (due bool) {
			d.Again(id)
			n.with(func(d *Dialer) {
				if due = d.mu.targets[id].once; due {
					d.mu.targets[id].once, d.mu.targets[id].began = false, time.Now()
				}
			})
			return due
		}
		if !again() || again() {
			t.Error("a peer is not dialled again, or twice at once")
		}
		if time.Sleep(againPause); !again() {
			t.Error("a peer is not dialled again later")
		}
	})
}

// However many peers that are not there are announced and dialled, what is known of a member stays:
// messages to it would wait for a dial again.
func TestAMemberStaysApart(t *testing.T) {
	n := alone(t, DialConfig{Every: 30 * time.Second})
	d, began, err := n.Dialer, time.Now(), errors.New("no route")
	n.SetMembers(map[peer.ID]struct{}{"a member": {}})
	d.note("a member", began, err)
	for i := range maxTargets + 1000 {
		id := peer.ID(rune(i))
		d.Found(peer.AddrInfo{ID: id})
		d.note(id, began, err)
		n.with(func(d *Dialer) {
			if t := d.mu.targets[id]; t != nil {
				d.failed(t, began)
			}
		})
	}
	if !d.Apart("a member") || len(d.mu.targets) > maxTargets {
		t.Errorf("a member counts as apart: %v, among %d", d.Apart("a member"), len(d.mu.targets))
	}
}
