package statesync

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// siteOf is the part of a test's peer name before the slash.
func siteOf(p slot.PeerID) string {
	site, _, _ := strings.Cut(string(p), "/")
	return site
}

// All of a laboratory join behind one address; a stranger that comes under many names from there
// gets no more than that, and one name no more than a few states. In an hour all is as before.
func TestQuotas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const state = 100 << 20
		member := slot.PeerID("lab/member")
		q := newQuotas(Quota{
			States: 3, Newcomers: 128, Site: siteOf,
			Exempt: func(p slot.PeerID) bool { return p == member },
		}, state)
		whole := func(p slot.PeerID) bool {
			for range 100 {
				if !q.charge(p, state/100) {
					return false
				}
			}
			return true
		}
		for i := range 64 {
			if p := slot.PeerID(fmt.Sprint("lab/", i)); !whole(p) {
				t.Fatalf("%s of 64 at one address gets no state", p)
			}
		}
		for i := range 64 {
			if !whole("lab/0") != (i >= 2) {
				t.Fatalf("state %d of one newcomer", i+2)
			}
		}
		joined := 0
		for i := range 200 {
			if q.charge(slot.PeerID(fmt.Sprint("lab/more ", i)), 1) {
				joined++
			}
		}
		if joined != 64 {
			t.Errorf("%d more newcomers of one address were served", joined)
		}
		if !whole("home/0") || !whole(member) || !whole(member) {
			t.Error("another address, or a member, is not served")
		}
		time.Sleep(quotaTime / 3)
		if !whole("lab/0") {
			t.Error("after a while one has nothing back")
		}
		time.Sleep(quotaTime)
		if !whole("lab/later") {
			t.Error("an hour later an address has nothing back")
		}
	})
}

// However many names come, few are kept in mind, and nobody's use is forgotten for them.
func TestQuotasAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQuotas(Quota{States: 1}, 1)
		q.charge("greedy", quotaFloor)
		for i := range 2 * maxQuotas {
			q.charge(slot.PeerID(fmt.Sprint(i)), 1)
		}
		if n := len(q.mu.accounts); n > maxQuotas {
			t.Errorf("%d are kept in mind", n)
		}
		if q.charge("greedy", quotaFloor/2) {
			t.Error("what was used is forgotten")
		}
		time.Sleep(quotaTime + time.Second)
		if !q.charge("another", quotaFloor) {
			t.Error("names of long ago take the place of new ones")
		}
	})
}

// A peer that has used up its share of one donor gets that as the answer, and asks others. If there
// are none, its error says so. Outcomes count, too.
func TestQuotaSpent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, want := keeping(t, 9)
		blobs, _ := putOutcome(t, s, 300_000)
		spent, fresh := server(t, s, ServerConfig{Quota: Quota{States: 3}}),
			server(t, s, ServerConfig{Quota: Quota{States: 3}})
		spend := func() {
			for spent.quota.charge("client", 1<<10) {
			}
		}
		spend()
		n := &peers{serve: serves{"spent": honest(spent), "fresh": honest(fresh)}}
		_, report := fetch(t, n, Config{}, []Target{want}, n.ids)
		if bad, ok := badOf(report, "spent"); !ok || bad.Lied || !strings.Contains(bad.Reason, "newcomer") ||
			report.Sources["spent"] > 0 {
			t.Errorf("report %+v", report)
		}
		delete(n.serve, "fresh")
		spend()
		_, _, err := n.tryState(t, want)
		if err == nil || !strings.Contains(err.Error(), "newcomer gets from it in an hour") {
			t.Errorf("with nobody else: %v", err)
		}
		spend() // some has come back
		c := (&holder{t: t, s: spent}).open("client")
		asked := &blob{root: blobs[0].Root, size: blobs[0].Size, frameBytes: testFrame}
		if _, err := c.frames(make([]byte, testFrame), asked, 0,
			1); err == nil || !strings.Contains(err.Error(), "newcomer") {
			t.Errorf("an outcome: %v", err)
		}
		c.close(nil)
		_ = spent.Close()
		n.wg.Wait()
	})
}
