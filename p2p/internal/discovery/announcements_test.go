package discovery

import (
	"errors"
	"fmt"
	"testing"

	"github.com/ipfs/go-datastore"
	"github.com/ipfs/go-datastore/query"
)

func announcementKey(run, peer int) datastore.Key {
	return datastore.NewKey(fmt.Sprintf("/providers/RUN%d/PEER%d", run, peer))
}

func TestAnnouncementsAreBounded(t *testing.T) {
	a, ctx := newAnnouncements(), t.Context()
	put := func(run, peer int) {
		noError(t, a.Put(ctx, announcementKey(run, peer), []byte("now")))
	}
	count := func(prefix string) int {
		t.Helper()
		r, err := a.Query(ctx, query.Query{Prefix: prefix})
		if err != nil {
			t.Fatal(err)
		}
		all, err := r.Rest()
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	for peer := range 5 {
		put(1, peer)
		put(1, peer)
	}
	for run := range 1000 { // one peer, many keys
		put(run+10, 77)
	}
	if n := count("/providers/RUN1"); n != 5 {
		t.Errorf("%d peers are left in the run", n)
	}
	if n := count("/providers/"); n != 5+maxAnnouncementsPeer {
		t.Errorf("%d announcements are held", n)
	}
	for peer := range 2 * maxAnnouncements { // many peers
		put(peer%100+10, peer+1000)
	}
	if n := count("/providers/"); n != maxAnnouncements || a.mu.count != n {
		t.Errorf("%d announcements are held, %d counted", n, a.mu.count)
	}
	put(1, 3)
	key := announcementKey(1, 3)
	if v := a.mu.byRun[key.Parent()][key]; string(v) != "now" {
		t.Errorf("got %q", v)
	}
	if err := errors.Join(a.Delete(ctx, key), a.Delete(ctx, key)); err != nil {
		t.Error(err)
	}
	if v, held := a.mu.byRun[key.Parent()][key]; held {
		t.Errorf("held after it was deleted: %q", v)
	}
	for _, records := range a.mu.byRun {
		for key := range records {
			_ = a.Delete(ctx, key)
		}
	}
	if a.mu.count != 0 || len(a.mu.byRun) != 0 || len(a.mu.byPeer) != 0 {
		t.Errorf("empty, it keeps %d records, %d runs, %d peers", a.mu.count, len(a.mu.byRun), len(a.mu.byPeer))
	}
}
