package store

import (
	"bytes"
	"crypto/rand"
	"log/slog"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// The log of a peer that forgets old records stays small while it is open, and says after each
// opening what it said before.
func TestLogStaysSmall(t *testing.T) {
	run := testRoot(1)
	s, err := openWith(disk.OS, t.TempDir(), run, 0, rand.Reader, slog.New(slog.DiscardHandler), 20_000)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	script, most, links := newLedgerScript(run), int64(0), 0
	for i := range 600 {
		save(t, s, []wire.Entry{script.vote(0, byte(i))}, []wire.Entry{script.commit(byte(i))})
		if i%20 == 19 {
			save(t, s, []wire.Entry{script.forget()})
			links += 2
		}
		most = max(most, s.end())
	}
	if most > 80_000 || most < 20_000 {
		t.Errorf("the log had up to %d bytes", most)
	}
	want := load(t, s)
	if len(want.Chain) != 1 || want.Past.Height != 600 || len(want.Past.Links) != links {
		t.Errorf("%d records, %d links, a summary at %d", len(want.Chain), len(want.Past.Links), want.Past.Height)
	}
	if got := load(t, reopen(t, s, run)); !sameButBoot(got, want) {
		t.Errorf("after an opening: %+v", got)
	}
}

// A chain that begins anew, from a summary that another peer had, replaces the one before.
func TestChainBeginsAnew(t *testing.T) {
	run := testRoot(1)
	s := open(t, t.TempDir(), run)
	own, other := newLedgerScript(run), newLedgerScript(run)
	save(t, s, []wire.Entry{own.commit(1), own.commit(2), own.vote(3, 4)})
	var commits []wire.Entry
	for i := range 9 {
		commits = append(commits, other.commit(byte(20+i)))
	}
	past := wire.EntryPast{Fresh: true, Past: wire.Past{
		Floor: 5, Height: 7, Links: [][]byte{{9}}, Summary: []byte("s"),
	}}
	save(t, s, append([]wire.Entry{past}, commits[5:]...))
	got := load(t, reopen(t, s, run))
	if len(got.Chain) != 4 || got.Chain[0].Record.Height != 6 || got.Past.Floor != 5 || len(got.Past.Links) != 1 ||
		!bytes.Equal(got.Past.Summary, []byte("s")) || len(got.Elsewhere) != 1 {
		t.Errorf("got %+v", got)
	}
	if err := newStateOf(got).rewind(6); err == nil {
		t.Error("rewound below the summary")
	}
}

func newStateOf(saved wire.Saved) *state {
	s := newState(testRoot(1), saved.Incarnation)
	s.past, s.chain = saved.Past, saved.Chain
	return s
}
