package order

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	for _, o := range []Order{{"vote-signed", 0}, {"log-half", 3 * time.Second}} {
		if got, err := Parse(o.String()); err != nil || got != o {
			t.Errorf("%s is read as %+v, %v", o, got, err)
		}
	}
	for _, line := range []string{
		"", "applied", "applied vanish", "applied crash now", "applied sleep", "applied sleep -1s",
	} {
		if _, err := Parse(line); err == nil || !strings.Contains(err.Error(), "write PLACE crash") {
			t.Errorf("%q: %v", line, err)
		}
	}
}

// TestAnOrderIsTakenOnce: of many goroutines at its place one takes it, and none elsewhere.
func TestAnOrderIsTakenOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "order")
	want := Order{"applied", time.Second}
	if _, ok, err := Take(path, "applied"); ok || err != nil {
		t.Fatalf("without an order: %v, %v", ok, err)
	}
	if err := Arm(path, want); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := Take(path, "log-half"); ok || err != nil || Taken(path) {
		t.Fatalf("at another place: %v, %v", ok, err)
	}
	var took atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			got, ok, err := Take(path, "applied")
			if err != nil || ok && got != want {
				t.Errorf("took %+v, %v", got, err)
			}
			if ok {
				took.Add(1)
			}
		})
	}
	all.Wait()
	if took.Load() != 1 || !Taken(path) {
		t.Errorf("taken %d times", took.Load())
	}
	if inTime, err := Disarm(path); inTime || err != nil {
		t.Errorf("taken back though it was taken: %v, %v", inTime, err)
	}
	if err := Arm(path, want); err != nil || Taken(path) {
		t.Errorf("armed again, and still taken (%v)", err)
	}
	if inTime, err := Disarm(path); !inTime || err != nil {
		t.Errorf("not taken back: %v, %v", inTime, err)
	}
}

func TestABadOrderIsSaid(t *testing.T) {
	path := filepath.Join(t.TempDir(), "order")
	if err := os.WriteFile(path, []byte("applied vanish\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := Take(path, "applied"); ok || err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("%v, %v", ok, err)
	}
}
