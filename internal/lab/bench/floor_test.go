package bench

import (
	"math"
	"os"
	"slices"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
)

// TestFloor: the clock says that each pass takes as many seconds as its number among those of a
// try, half of that in the first try, and three times that in the last. 4 peers make 4 vectors and
// receive 6. None is done (TestUnits does them).
func TestFloor(t *testing.T) {
	dir := t.TempDir()
	c := Case{Place: Place{Peers: 4}, Bytes: 4 * coldElements}
	passes := 0
	f, err := c.floor(dir, func(func()) float64 {
		passes++
		return float64(1+(passes-1)%7) * []float64{.5, 1, 3}[(passes-1)/7]
	})
	want := floor{}
	for i, vectors := range []float64{4, 4 + 6, 4, 4 + 6, 6, 4, 4} {
		want[1+i] = vectors * float64(1+i)
		want[0] += want[1+i]
	}
	if err != nil || f != want || passes != 3*7 {
		t.Errorf("%v after %d passes, want %v; %v", f, passes, want, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
	if _, err := c.floor(dir+"/none", func(func()) float64 { return 0 }); err == nil {
		t.Error("a floor without a folder to write to")
	}
}

// TestUnits: each term takes CPU time, of a small model that is encoded, too.
func TestUnits(t *testing.T) {
	c := Case{Place: Place{Peers: 2}, Bytes: 1 << 20}
	c.Spec.Codec = codec.Int8
	f, err := c.floor(t.TempDir(), cpuSeconds)
	if err != nil || !(slices.Min(f[:]) > 0) || math.IsInf(f[0], 0) {
		t.Errorf("%v; %v", f, err)
	}
}

// TestTLSPair: what is sent arrives, again and again, where its last record is full and where it is
// not.
func TestTLSPair(t *testing.T) {
	near, far, err := tlsPair()
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{1, 1 << 20, 1<<20 + 1} {
		sent, came := make([]byte, size), make([]byte, size)
		for i := range sent {
			sent[i] = byte(i*i + 1)
		}
		if err := sendRecords(near, far, sent, came); err != nil || string(came) != string(sent) {
			t.Errorf("%d bytes do not arrive: %v", size, err)
		}
	}
	if err := near.Close(); err != nil {
		t.Error(err)
	}
	if err := sendRecords(near, far, []byte{1}, make([]byte, 1)); err == nil {
		t.Error("sent over a connection that is closed")
	}
	_ = far.Close()
}
