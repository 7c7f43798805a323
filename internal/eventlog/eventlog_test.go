package eventlog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

func TestWriteFollowParse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events")
	follower := Follow(path)
	defer follower.Close()
	var got []Line
	next := func() {
		t.Helper()
		err := follower.Next(func(b []byte) {
			l, err := Parse(b)
			if err != nil {
				t.Error(err)
			}
			got = append(got, l)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	next() // there is no file yet
	w, err := Create(path, Rotation{})
	if err != nil {
		t.Fatal(err)
	}
	for round := range uint64(3) {
		line := `{"time":"1970-01-01T00:00:0%dZ","event":"trainer.stats","peer":"p","round":%[1]d,"loss":2.5}`
		noError(t, w.Line(fmt.Appendf(nil, line, round)))
		next()
	}
	noError(t, w.Close())
	if len(got) != 3 || got[2].Round != 2 || got[2].Loss != 2.5 || got[2].Event != "trainer.stats" ||
		!got[2].Time.Equal(time.Unix(2, 0)) {
		t.Errorf("got %+v", got)
	}
}

func TestFollowBoundsALine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events")
	noError(t, os.WriteFile(path, make([]byte, MaxLine+1), 0o600))
	follower := Follow(path)
	defer follower.Close()
	if err := follower.Next(func([]byte) { t.Error("a line of nothing but zeros") }); err == nil {
		t.Error("a line without end was accepted")
	}
}

func TestCreateFails(t *testing.T) {
	if _, err := Create(t.TempDir(), Rotation{}); err == nil {
		t.Error("a folder was opened as events file")
	}
}

func TestWriterAppendsWholeLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events")
	var wg sync.WaitGroup
	for writer := range 4 {
		w, err := Create(path, Rotation{})
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			defer w.Close()
			for i := range 50 {
				if err := w.Line(fmt.Appendf(nil, `{"event":"e","slot":%d}`, writer*50+i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	follower := Follow(path)
	defer follower.Close()
	seen := map[uint64]bool{}
	err := follower.Next(func(b []byte) {
		l, err := Parse(b)
		if err != nil {
			t.Error(err)
		}
		seen[l.Slot] = true
	})
	if err != nil || len(seen) != 200 {
		t.Errorf("%d of 200 lines, %v", len(seen), err)
	}
}

// TestALineThatWasCutOffIsEnded: a kill may leave the beginning of a line, which must not take the
// next process's first event with it.
func TestALineThatWasCutOffIsEnded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events")
	noError(t, os.WriteFile(path, []byte("{\"event\":\"a\"}\n{\"event\":\"b\",\"sl"), 0o600))
	for _, event := range []string{"c", "d"} {
		w, err := Create(path, Rotation{})
		if err != nil {
			t.Fatal(err)
		}
		noError(t, errors.Join(w.Line([]byte(`{"event":"`+event+`"}`)), w.Close()))
	}
	b, err := os.ReadFile(path)
	if want := "{\"event\":\"a\"}\n{\"event\":\"b\",\"sl\n{\"event\":\"c\"}\n{\"event\":\"d\"}\n"; err != nil ||
		string(b) != want {
		t.Errorf("the file holds %q, want %q (%v)", b, want, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"event":"slot.applied","peer":"p","slot":7,"state_root":"01ab"}`))
	f.Add([]byte(`{"event":"peer.started","addrs":["/ip4/127.0.0.1"],"pid":3}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if l, err := Parse(b); err == nil && l.Event == "" {
			t.Error("an event without a name was accepted")
		}
	})
}

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
