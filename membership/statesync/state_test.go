package statesync

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/checkpoint"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// fetch fetches one of the targets and checks that it is there, whole.
func fetch(t *testing.T, n *peers, cfg Config, want []Target, from func() []slot.PeerID) (checkpoint.Checkpoint,
	Report,
) {
	t.Helper()
	store := newStore(t, testShape)
	var last int64
	got, report, err := NewClient(n, cfg).FetchState(t.Context(), store, want, from, func(done, total int64) {
		if done <= last || total != testShape.Size() {
			t.Errorf("progress %d of %d after %d", done, total, last)
		}
		last = done
	})
	if err != nil {
		t.Fatalf("%v; %+v", err, report)
	}
	n.wg.Wait() // the client has hung up on everybody
	if last != testShape.Size() || report.Decoded != last {
		t.Fatalf("%d bytes of %d, report says %d", last, testShape.Size(), report.Decoded)
	}
	v := state(testShape, 999)
	if err := store.Load(got, v...); err != nil {
		t.Fatal(err)
	}
	var sum int64
	for b := range maps.Values(report.Sources) {
		sum += b
	}
	if sum != report.Bytes || sum == 0 {
		t.Fatalf("sources give %d bytes of %d", sum, report.Bytes)
	}
	return got, report
}

func TestFetchStateFromSeveral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, testShape)
		old, want := put(t, s, 3), put(t, s, 9)
		v := server(t, s, free)
		n := &peers{serve: serves{
			"a": honest(v), "b": source(t, s, free),
			"c": source(t, s, free),
		}}
		got, report := fetch(t, n, Config{}, []Target{old, want, {Height: 12, Slot: 12, Root: slot.Root{1}}}, n.ids)
		if got.Height != 9 || got.Root != want.Root {
			t.Fatalf("fetched %v, not the newest that is held", got)
		}
		if len(report.Sources) != 3 || len(report.Bad) != 0 {
			t.Fatalf("report %+v", report)
		}
		if report.Bytes > report.Decoded*9/10 {
			t.Fatalf("%d bytes travelled for %d: not compressed", report.Bytes, report.Decoded)
		}
	})
}

func TestFetchStateWithBadDonors(t *testing.T) {
	for name, c := range map[string]struct {
		fault func(wire.Stream, []byte) (int, error)
		after int
		lied  bool
	}{
		"lying":        {lying, 5000, true},
		"lying late":   {lying, 300_000, true},
		"dying":        {dying, 5000, false},
		"stalling":     {stalling, 5000, false},
		"lying list":   {lying, 0, true},
		"dying list":   {dying, 0, false},
		"stalled list": {stalling, 0, false},
	} {
		bubble(t, name, func(t *testing.T) {
			s, want := keeping(t, 9)
			n := &peers{serve: serves{
				// else it is over before the bad one had its turn
				"a": source(t, s, slow), "bad": faulty(server(t, s, slow), c.after, c.fault),
			}}
			_, report := fetch(t, n, Config{}, []Target{want}, n.ids)
			b, named := badOf(report, "bad")
			if !named || b.Lied != c.lied || len(report.Bad) != 1 {
				t.Fatalf("named %+v", report.Bad)
			}
			if report.Elapsed > 10*time.Second {
				t.Fatalf("took %v: the others waited for the bad one", report.Elapsed)
			}
		})
	}
}

func TestLiarGivesNothingAfterItsLie(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, want := keeping(t, 9)
		var once atomic.Bool
		n := &peers{serve: serves{
			"a": source(t, s, slow),
			"bad": faulty(server(t, s, slow), 5000, func(st wire.Stream, b []byte) (int, error) {
				if once.CompareAndSwap(false, true) {
					return lying(st, b)
				}
				return st.Write(b)
			}),
		}}
		_, report := fetch(t, n, Config{}, []Target{want}, n.ids)
		if _, named := badOf(report, "bad"); !named || report.Sources["bad"] > checkpoint.GroupBytes {
			t.Fatalf("report %+v: at most the piece on its other stream is taken from a liar", report)
		}
	})
}

func TestLateDonorHelps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, want := keeping(t, 9)
		n := &peers{serve: serves{
			"a":    honest(server(t, s, ServerConfig{BytesPerSecond: 200_000})),
			"late": honest(server(t, s, ServerConfig{BytesPerSecond: 2_000_000})),
		}}
		began := time.Now()
		_, report := fetch(t, n, Config{}, []Target{want}, func() []slot.PeerID {
			switch d := time.Since(began); {
			case d < 4*time.Second:
				return nil
			case d < 6*time.Second:
				return []slot.PeerID{"a"}
			}
			return n.ids()
		})
		if report.Sources["late"] <= report.Sources["a"] || report.Sources["a"] == 0 || len(report.Bad) != 0 {
			t.Fatalf("report %+v: the faster donor should give more", report)
		}
	})
}

func TestBusyDonorIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, want := keeping(t, 9)
		n := &peers{serve: serves{"a": honest(server(t, s, ServerConfig{PerPeer: 1}))}}
		_, report := fetch(t, n, Config{Streams: 3}, []Target{want}, n.ids)
		if len(report.Sources) != 1 {
			t.Fatalf("report %+v", report)
		}
	})
}

func TestPrunedStateGivesWayToAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, testShape)
		older := put(t, s, 3)
		has := server(t, s, free)
		both := newStore(t, testShape)
		put(t, both, 3)
		newer := put(t, both, 9)
		list := server(t, both, free)
		asked := 0
		n := &peers{serve: serves{"a": func(st wire.Stream) {
			if asked++; asked == 1 { // it lists the newer one, and then has it no more
				list.Serve("client", st)
				return
			}
			has.Serve("client", st)
		}}}
		got, report := fetch(t, n, Config{Streams: 1}, []Target{older, newer}, n.ids)
		if got.Height != 3 || len(report.Bad) != 0 {
			t.Fatalf("fetched %v, %+v", got, report)
		}
	})
}

func TestNobodyHoldsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := checkpoint.Shape{Elements: 10}
		small := newStore(t, other)
		lie := put(t, small, 1) // of another size than this run's states
		n := &peers{serve: serves{
			"empty": source(t, newStore(t, testShape), free),
			"small": source(t, small, free), "away": nil,
		}}
		for _, want := range [][]Target{nil, {lie}} {
			_, report, err := n.tryState(t, want...)
			if !errors.Is(err, ErrNoDonor) {
				t.Fatalf("error %v", err)
			}
			if b, named := badOf(report, "small"); named != (want != nil) || named && !b.Lied {
				t.Fatalf("report %+v", report)
			}
		}
	})
}

func TestFetchStateEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, want := keeping(t, 9)
		for _, after := range []int{0, 5000} {
			n := &peers{serve: serves{"a": faulty(server(t, s, free), after,
				stalling)}}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, _, err := NewClient(n, Config{}).FetchState(ctx, newStore(t, testShape), []Target{want}, n.ids, nil)
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("error %v", err)
			}
			n.wg.Wait()
		}
	})
}

func TestCloseEndsStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := NewServer(newStore(t, testShape), free)
		n := &peers{serve: serves{"a": honest(v)}}
		st, err := n.Open(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := v.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := st.Read(make([]byte, 1)); err == nil {
			t.Fatal("the stream is still open")
		}
		st, err = n.Open(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := st.Read(make([]byte, 1)); err == nil {
			t.Fatal("a closed server serves")
		}
		n.wg.Wait()
	})
}

func TestPacer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPacer(1 << 20) // 64 slices a second
		for _, times := range []int{1, busyToll} {
			time.Sleep(time.Minute) // nothing is saved up but the first slice
			began := time.Now()
			for range 33 {
				if err := p.wait(t.Context(), p.slice, times); err != nil {
					t.Fatal(err)
				}
			}
			want := time.Duration(33*times-1) * time.Second / 64
			if d := time.Since(began); d.Round(time.Millisecond) != want.Round(time.Millisecond) {
				t.Errorf("the last of 33 slices, each taken %d times, went after %v, not %v", times, d, want)
			}
		}
	})
}

func BenchmarkFetchState(b *testing.B) {
	shape := checkpoint.Shape{Elements: 8 << 20, Optimizer: 1} // 64 MiB
	s := newStore(b, shape)
	want := put(b, s, 1)
	n := &peers{serve: serves{}}
	for _, p := range []slot.PeerID{"a", "b", "c"} {
		n.serve[p] = source(b, s, free)
	}
	b.SetBytes(shape.Size())
	for b.Loop() {
		store := newStore(b, shape)
		got, report, err := NewClient(n, Config{}).FetchState(b.Context(), store, []Target{want}, n.ids, nil)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(report.Bytes)/float64(report.Decoded), "sent/byte")
		b.ReportMetric(float64(len(slices.Collect(maps.Keys(report.Sources)))), "donors")
		_ = store.Prune(checkpoint.Policy{
			State:   func(uint64) (slot.Root, bool) { return slot.Root{}, got.Height == 1 },
			Outcome: func(uint64) (slot.Root, bool) { return slot.Root{}, false },
		})
	}
}
