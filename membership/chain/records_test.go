package chain

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// heldRecords stand for a disk.
type heldRecords []wire.Commit

func (d heldRecords) Record(height uint64) (wire.Commit, error) {
	if height > uint64(len(d)) {
		return wire.Commit{}, errors.New("no such record")
	}
	return d[height-1], nil
}

func sameState(t *testing.T, name string, a, b *Chain) {
	t.Helper()
	if a.TipHash() != b.TipHash() || !reflect.DeepEqual(a.state, b.state) || !reflect.DeepEqual(a.index, b.index) ||
		fmt.Sprint(a.recent) != fmt.Sprint(b.recent) {
		t.Fatalf("%s: another state at height %d", name, a.Height())
	}
}

// A chain whose old records are on disk alone is the chain that holds all, wherever it is taken
// back to, and judges the next record as that does.
func TestAChainOnDiskIsTheSame(t *testing.T) {
	for _, byzantine := range []bool{false, true} {
		w := churned(byzantine, 200, 6, 10)
		whole := w.UpTo(w.Height())
		on := heldRecords(whole.Commits())
		w.disk = on
		w.Release(w.Height() - 10)
		if w.Floor() != w.Height()-HeldRecords || whole.Floor() != 0 {
			t.Fatalf("of %d records %d are on disk alone, and %d of the copy", w.Height(), w.Floor(), whole.Floor())
		}
		resumed, err := Resume(w.rules, slot.Root{}, on, w.Height())
		if err != nil || resumed.Floor() != w.Floor() {
			t.Fatal(err)
		}
		for _, c := range []*Chain{w.Chain, resumed} {
			sameState(t, "with records on disk", whole, c)
			for _, height := range []uint64{0, 1, 50, c.Floor() - 1, c.Floor(), c.Floor() + 1, c.Height()} {
				back, err := c.Reread(height)
				if err != nil {
					t.Fatal(err)
				}
				sameState(t, "taken back", whole.UpTo(height), back)
				if c.CommonHeight(back) != height || back.CommonHeight(c) != height {
					t.Fatalf("a beginning of %d records shares %d", height, c.CommonHeight(back))
				}
			}
			for _, height := range []uint64{1, c.Floor(), c.Floor() + 1, c.Height()} {
				if k, err := c.Read(height); err != nil || k.Record.Hash() != whole.Hash(height) {
					t.Fatalf("record %d: %v", height, err)
				}
				if root, ok := c.StateRoot(height - 1); !ok || root != whole.At(height).StateRoot {
					t.Fatalf("no state root below record %d", height)
				}
			}
		}
		w.step()
		for _, c := range []*Chain{whole, resumed} {
			if err := c.Extend(w.Commit(w.Height()), verifyEd25519); err != nil {
				t.Error(err)
			}
		}
	}
}

// What is not on disk yet stays in memory, and what cannot be read, or is another record, is an
// error.
func TestRecordsThatAreNotOnDisk(t *testing.T) {
	w := churned(false, 150, 2, 500)
	all := heldRecords(w.Commits())
	w.disk = all[:20]
	if w.Release(20); w.Floor() != 20 {
		t.Fatalf("records up to %d are released, 20 are on disk", w.Floor())
	}
	w.disk = append(append(heldRecords{}, all[:9]...), all[10:]...)
	if _, err := w.Read(9); err != nil {
		t.Error(err)
	}
	if _, err := w.Read(10); err == nil {
		t.Error("another record is taken for the one at height 10")
	}
	if c, err := w.Reread(15); err == nil {
		t.Errorf("a chain of %d records is made of others", c.Height())
	}
	for _, height := range []uint64{0, w.Height() + 1} {
		if _, err := w.Read(height); err == nil {
			t.Errorf("there is a record at height %d", height)
		}
	}
}

// A pin is found at any depth.
func TestPinsOnDisk(t *testing.T) {
	w := churned(true, 150, 3, 50)
	for _, pin := range []uint64{0, 1, 40, w.Height()} {
		c, err := Resume(w.rules, w.Hash(pin), heldRecords(w.Commits()), w.Height())
		if err != nil || !c.Pinned() {
			t.Errorf("the pin at height %d is not found: %v", pin, err)
		}
		if back, err := c.Reread(min(40, c.Height()-1)); err != nil || back.Pinned() != (pin <= 40) {
			t.Errorf("the pin at height %d in a chain of 40: %v", pin, err)
		}
	}
	if c, err := Resume(w.rules, slot.Root{1}, heldRecords(w.Commits()), w.Height()); err != nil || c.Pinned() {
		t.Error("a pin is found that is not there")
	}
}

// A chain of many records takes little memory: 40 bytes each, and the newest ones.
func TestALongChainTakesLittleMemory(t *testing.T) {
	w := newSignedWorld(signedRules(true))
	w.mute = true
	slots := testutil.Choose(300, 2000, 10_000)
	begun := uint64(0)
	for i := range slots {
		w.churn(1, 8, 20, func() {})
		if w.Release(w.Height()); i == slots/3 {
			begun = heap()
		}
	}
	perRecord := (int64(heap()) - int64(begun)) / int64(slots-slots/3)
	if runtime.KeepAlive(w); perRecord > 1000 {
		t.Errorf("memory grows by %d bytes a record", perRecord)
	}
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
