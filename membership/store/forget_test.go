package store

import (
	"bytes"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// The log of a peer that forgets old records stays small while it is open, and says after each
// opening what it said before.
func TestLogStaysSmall(t *testing.T) {
	s := openSmall(t, t.TempDir(), 20_000)
	script, most, links := newLedgerScript(), int64(0), 0
	for i := range 600 {
		save(t, s, []wire.Entry{script.vote(0, byte(i))}, []wire.Entry{script.commit(byte(i))})
		if i%20 == 19 {
			put(t, s, script.forget())
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
	if got := load(t, reopen(t, s)); !sameButBoot(got, want) {
		t.Errorf("after an opening: %+v", got)
	}
}

// A chain that begins anew, from a summary that another peer had, replaces the one before.
func TestChainBeginsAnew(t *testing.T) {
	s := open(t, t.TempDir())
	own, other := newLedgerScript(), newLedgerScript()
	put(t, s, own.commit(1), own.commit(2), own.vote(3, 4))
	var commits []wire.Entry
	for i := range 9 {
		commits = append(commits, other.commit(byte(20+i)))
	}
	past := wire.EntryPast{Fresh: true, Past: wire.Past{
		Floor: 5, Height: 7, Links: [][]byte{{9}}, Summary: []byte("s"),
	}}
	save(t, s, append([]wire.Entry{past}, commits[5:]...))
	got := load(t, reopen(t, s))
	if len(got.Chain) != 4 || got.Chain[0].Record.Height != 6 || got.Past.Floor != 5 || len(got.Past.Links) != 1 ||
		!bytes.Equal(got.Past.Summary, []byte("s")) || len(got.Elsewhere) != 0 {
		t.Errorf("got %+v", got)
	}
	if err := newStateOf(got).rewind(6); err == nil {
		t.Error("rewound below the summary")
	}
}

// givenUp is a log in which a branch of n records was given up. The run went on beside it, and old
// records are forgotten, up to a summary above the branch; or below its end by so many heights.
// There is a mark of a fork, too.
func givenUp(script *ledgerScript, n, below int) (saves [][]wire.Entry) {
	for range n {
		saves = append(saves, []wire.Entry{script.commit(1)})
	}
	saves = append(saves, []wire.Entry{script.promise(3), script.fork(1, 9), script.rewind(0)})
	for range n + 100 {
		saves = append(saves, []wire.Entry{script.commit(2)})
	}
	end := uint64(n + 1 - below)
	return append(saves, []wire.Entry{wire.EntryPast{Past: wire.Past{
		Floor: end - 1, Height: end, Summary: make([]byte, 50),
	}}})
}

// What was said and decided on a branch that was given up goes when the records beside it go: log
// and memory are what they would be without it.
func TestABranchGivenUpIsForgotten(t *testing.T) {
	const n = 1000
	size := func(saves [][]wire.Entry) (size int64) {
		dir := t.TempDir()
		s := open(t, dir)
		save(t, s, saves...)
		want := load(t, s)
		if len(want.Elsewhere) > 0 {
			t.Errorf("words at %d places are kept", len(want.Elsewhere))
		}
		for range 2 {
			shut(t, s)
			s = openSmall(t, dir, 0)
			if got := load(t, s); !sameButBoot(got, want) {
				t.Errorf("after an opening: words at %d places", len(got.Elsewhere))
			}
			size = s.end()
		}
		_ = s.Close()
		return size
	}
	with := givenUp(newLedgerScript(), n, 0)
	without := append([][]wire.Entry(nil), with[n+1:]...)
	if a, b := size(with), size(without); a != b {
		t.Errorf("the log has %d bytes, and %d where nothing was given up", a, b)
	}
}

// What lies above the summary may be come back to, and is kept.
func TestWordsAboveTheSummaryAreKept(t *testing.T) {
	s := open(t, t.TempDir())
	save(t, s, givenUp(newLedgerScript(), 50, 7)...)
	for range 2 {
		decided, marks := 0, 0
		for at, p := range load(t, s).Elsewhere {
			if p.Decided != nil && at.Height > 44 && at.Height <= 50 {
				decided++
			} else if p.Fork != nil && p.Promise != nil && at.Height == 51 {
				marks++
			} else {
				t.Errorf("words at height %d", at.Height)
			}
		}
		if decided != 6 || marks != 1 {
			t.Errorf("%d records are kept, and %d marks", decided, marks)
		}
		s = reopen(t, s)
	}
}

// A log that keeps all words on branches given up opens, and is as small then as others.
func TestALogThatKeepsAllWordsOpens(t *testing.T) {
	s := open(t, t.TempDir())
	for _, entries := range givenUp(newLedgerScript(), 50, 0) {
		if err := s.append(entries); err != nil { // not folded here
			t.Fatal(err)
		}
	}
	if got := load(t, reopen(t, s)); len(got.Elsewhere) != 0 || got.Past.Height != 51 || len(got.Chain) != 100 {
		t.Errorf("words at %d places, %d records, a summary at %d", len(got.Elsewhere), len(got.Chain), got.Past.Height)
	}
}

func newStateOf(saved wire.Saved) *state {
	s := newState(testRoot(1), saved.Incarnation)
	s.past, s.chain = saved.Past, saved.Chain
	return s
}
