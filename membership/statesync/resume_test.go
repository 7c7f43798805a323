package statesync

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/checkpoint"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// part fetches into a store until so many bytes are there, and is interrupted then.
func part(t *testing.T, n *peers, store *checkpoint.Store, want []Target, until int64) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, _, err := NewClient(n, Config{}).FetchState(ctx, store, want, n.ids, func(done, _ int64) {
		if done >= until {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v", err)
	}
	n.wg.Wait()
}

// A fetch that was interrupted goes on where it was, also from other donors.
func TestFetchIsTakenUpAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, store := newStore(t, testShape), newStore(t, testShape)
		want := put(t, s, 9)
		n := &peers{serve: serves{"a": source(t, s, slow)}}
		part(t, n, store, []Target{want}, testShape.Size()/2)
		n.serve = serves{"b": source(t, s, slow)}
		first := int64(0)
		got, report, err := NewClient(n, Config{}).FetchState(t.Context(), store, []Target{want}, n.ids,
			func(done, _ int64) {
				if first == 0 {
					first = done
				}
			})
		if err != nil {
			t.Fatal(err)
		}
		n.wg.Wait()
		if report.Resumed < testShape.Size()/2 || report.Resumed+report.Decoded != testShape.Size() ||
			first <= report.Resumed {
			t.Fatalf("report %+v, first progress %d of %d", report, first, testShape.Size())
		}
		if err := store.Load(got, state(testShape, 1)...); err != nil {
			t.Fatal(err)
		}
	})
}

// While slots keep being committed: the state that was begun is finished as long as somebody has
// it, though there are newer ones; and it is dropped when nobody has it any more.
func TestWhatWasBegunIsFinishedWhileItIsServed(t *testing.T) {
	for name, served := range map[string]bool{"served": true, "pruned": false} {
		bubble(t, name, func(t *testing.T) {
			old, young, dir := newStore(t, testShape), newStore(t, testShape), t.TempDir()
			store := openStore(t, dir, testShape)
			begun, newer := put(t, old, 9), put(t, young, 12)
			n := &peers{serve: serves{"old": source(t, old, slow)}}
			part(t, n, store, []Target{begun}, testShape.Size()/2)
			n.serve["new"] = source(t, young, slow)
			if !served {
				delete(n.serve, "old")
			}
			got, report, err := NewClient(n, Config{}).FetchState(t.Context(), store, []Target{newer, begun}, n.ids,
				nil)
			if err != nil || (got.Height == 9) != served || (report.Resumed > 0) != served {
				t.Fatalf("got %v, %+v, %v", got, report, err)
			}
			n.wg.Wait()
			names, err := filepath.Glob(filepath.Join(dir, "*"))
			if err != nil || len(names) != 1 {
				t.Fatalf("left over: %v, %v", names, err)
			}
		})
	}
}

// A donor whose file has rotted says that it holds the state no more. It is not blamed, and the
// others give what it lacks.
func TestADonorWhoseFileRotsIsNotBlamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, dir := newStore(t, testShape), t.TempDir()
		want := put(t, s, 9)
		rotten := openStore(t, dir, testShape)
		put(t, rotten, 9)
		names, err := filepath.Glob(filepath.Join(dir, "state-*"))
		if err != nil || len(names) != 1 {
			t.Fatal(names, err)
		}
		b, err := os.ReadFile(names[0])
		if err != nil {
			t.Fatal(err)
		}
		// in every piece
		for at := checkpoint.GroupBytes / 2; at < len(b); at += checkpoint.GroupBytes {
			b[at] ^= 4
		}
		if err := os.WriteFile(names[0], b, 0o600); err != nil {
			t.Fatal(err)
		}
		n := &peers{serve: serves{
			"a":      source(t, s, slow),
			"rotten": source(t, rotten, slow),
		}}
		_, report := fetch(t, n, Config{}, []Target{want}, n.ids)
		if len(report.Bad) != 0 || report.Sources["rotten"] != 0 {
			t.Fatalf("report %+v", report)
		}
		if _, err := os.Stat(names[0] + ".corrupt"); err != nil {
			t.Fatalf("the donor has not noticed: %v", err)
		}
	})
}

// Donors of speeds 1, 2 and 4 give shares of about 1, 2 and 4 parts.
func TestSharesFollowSpeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, checkpoint.Shape{Elements: 4 << 20, Optimizer: 1}) // 32 MB, 64 pieces
		want := put(t, s, 9)
		n := &peers{serve: serves{}}
		for p, rate := range map[slot.PeerID]int64{"one": 1 << 20, "two": 2 << 20, "four": 4 << 20} {
			n.serve[p] = honest(server(t, s, ServerConfig{BytesPerSecond: rate}))
		}
		_, report, err := NewClient(n, Config{}).FetchState(t.Context(), newStore(t, s.Shape()), []Target{want}, n.ids,
			nil)
		if err != nil {
			t.Fatal(err)
		}
		n.wg.Wait()
		for p, parts := range map[slot.PeerID]float64{"one": 1, "two": 2, "four": 4} {
			share := float64(report.Sources[p]) / float64(report.Bytes)
			if ideal := parts / 7; share < .8*ideal || share > 1.25*ideal {
				t.Errorf("%s gave %.3f of the bytes, its part of the speed is %.3f", p, share, ideal)
			}
		}
		ideal := time.Duration(float64(report.Bytes) / (7 << 20) * float64(time.Second))
		if report.Elapsed > ideal*5/4 {
			t.Errorf("took %v, all donors together can do it in %v", report.Elapsed, ideal)
		}
	})
}

// A dropped donor is reported at once, not when the fetch is over.
func TestDropsAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, want := keeping(t, 9)
		n := &peers{serve: serves{
			"a":   source(t, s, slow),
			"bad": faulty(server(t, s, slow), 5000, lying),
		}}
		var told atomic.Pointer[Bad]
		early := false
		_, _, err := NewClient(n, Config{OnDrop: func(b Bad) { told.Store(&b) }}).FetchState(
			t.Context(), newStore(t, testShape), []Target{want}, n.ids,
			func(done, total int64) { early = early || told.Load() != nil && done < total })
		if err != nil {
			t.Fatal(err)
		}
		n.wg.Wait()
		if b := told.Load(); b == nil || b.Peer != "bad" || !b.Lied || !strings.Contains(b.Reason, "wrong bytes") ||
			!early {
			t.Fatalf("told %+v, before the end: %v", b, early)
		}
	})
}

// Where everybody says that no wanted state is there, nobody waits for one.
func TestNobodyIsWaitedForInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, testShape)
		put(t, s, 9)
		n := &peers{serve: serves{"a": source(t, s, free), "away": nil}}
		began := time.Now()
		_, _, err := n.tryState(t, Target{Height: 5, Slot: 5, Root: slot.Root{5}})
		if d := time.Since(began); !errors.Is(err, ErrNoDonor) || d > 2*time.Second {
			t.Fatalf("after %v: %v", d, err)
		}
	})
}

// A busy server sends at an eighth of its rate.
func TestABusyServerSendsSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, want := keeping(t, 9)
		took := func(busy bool) time.Duration {
			n := &peers{serve: serves{
				"a": honest(server(t, s, ServerConfig{BytesPerSecond: 1 << 20, Busy: func() bool { return busy }})),
			}}
			_, report := fetch(t, n, Config{}, []Target{want}, n.ids)
			return report.Elapsed
		}
		if free, busy := took(false), took(true); busy < 6*free {
			t.Fatalf("%v while busy, %v while not", busy, free)
		}
	})
}

// A member that lacks an outcome may be what a slot waits for: it gets it at once, and its state
// like everybody at the server's rate.
func TestOutcomesForMembersAreNotPaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, checkpoint.Shape{Elements: 25_000})
		blobs, _ := putOutcome(t, s, 200_000)
		want := put(t, s, 9)
		took := func(member bool) (outcome, state time.Duration) {
			v := server(t, s, ServerConfig{BytesPerSecond: 10_000, Prefer: func(slot.PeerID) bool { return member }})
			n := &peers{serve: serves{"a": honest(v)}}
			c := NewClient(n, Config{})
			_, first, err := c.FetchOutcome(t.Context(), blobs, testFrame, n.ids())
			if err != nil {
				t.Fatal(err)
			}
			_, second, err := c.FetchState(t.Context(), newStore(t, s.Shape()), []Target{want}, n.ids, nil)
			if err != nil {
				t.Fatal(err)
			}
			n.wg.Wait()
			return first.Elapsed, second.Elapsed
		}
		if outcome, state := took(true); outcome > time.Second || state < 7*time.Second {
			t.Errorf("a member's outcome took %v, its state %v", outcome, state)
		}
		if outcome, _ := took(false); outcome < 15*time.Second {
			t.Errorf("a stranger's outcome took %v", outcome)
		}
	})
}
