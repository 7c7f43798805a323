package replica

import (
	"bytes"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// after is the position after a slot of a test's run.
func after(s uint64) Position { return Position{Height: s, Slot: s, Root: slot.Root{byte(s)}} }

// A peer that restarts in the middle of a run, from an older checkpoint, offers the same bytes as
// one that did not.
func TestRestartsChangeNoBits(t *testing.T) {
	const fragments, slots = 2, 12
	for _, name := range []string{codec.BF16, codec.Int8, codec.Int4, codec.Sign} {
		offers := func(stops ...uint64) (all [][]byte) {
			dir, rng := t.TempDir(), rand.New(rand.NewPCG(1, 2))
			c, d, _ := opened(name, fragments, dir, slot.Root{})
			var past []slot.Record
			for s := uint64(1); s <= slots; s++ {
				fragment := int(s-1) % fragments
				g := make([]float32, c.feedback.sizes[fragment])
				for j := range g {
					g[j] = float32(rng.NormFloat64())
				}
				root, _, err := c.offer(s-1, fragment, g)
				if err != nil {
					t.Fatal(err)
				}
				own, done := c.withRoot(root)
				all = append(all, slices.Clone(own.Bytes()))
				done()
				record := listing(s, fragment, root, uint64(len(g)), func(f int) bool { return f != 1 })
				past = append(past, record)
				c.settle(record)
				d.reached(after(s))
				if slices.Contains(stops, s) {
					if err := saved(d, after(s)); err != nil {
						t.Fatal(err)
					}
					c, d, _ = opened(name, fragments, dir, slot.Root{})
					from := s - min(s, 3) // an older checkpoint
					d.reached(after(from))
					for _, r := range past[from:] {
						c.settle(r)
						d.reached(after(r.Slot))
					}
				}
			}
			return all
		}
		if straight, stopped := offers(), offers(2, 3, 7); !slices.EqualFunc(straight, stopped, bytes.Equal) {
			t.Errorf("%s: a peer that restarted offers other bytes", name)
		}
	}
}

// indebted is a peer that owes something after slot 3, which is on disk in a folder.
func indebted(t *testing.T, dir string) *contributions {
	t.Helper()
	c, d, _ := opened(codec.Int4, 1, dir, slot.Root{})
	g := make([]float32, c.feedback.sizes[0])
	for j := range g {
		g[j] = float32(j%7) / 7
	}
	root, _, err := c.offer(2, 0, g)
	if err != nil {
		t.Fatal(err)
	}
	c.settle(listing(3, 0, root, uint64(len(g)), func(int) bool { return true }))
	if err := saved(d, after(3)); err != nil {
		t.Fatal(err)
	}
	return c
}

// opened are a peer's contributions with what a folder has of their debt.
func opened(codecName string, fragments int, dir string, run slot.Root) (c *contributions, d *debtFile,
	log *strings.Builder,
) {
	c, log = debtor(codecName, fragments, 0), new(strings.Builder)
	logger := slog.New(slog.NewTextHandler(log, nil))
	d, err := openDebtFile(Config{Dir: dir, Run: Run{ID: run}, Logger: logger}, c.feedback)
	if err != nil {
		panic(err)
	}
	return c, d, log
}

var warned = regexp.MustCompile("level=(WARN|ERROR)")

// A debt that does not belong to the state that a peer comes to, or whose file is damaged, is
// dropped, and the log says so.
func TestADebtOfAnotherStateIsDropped(t *testing.T) {
	branch := after(3)
	branch.Root[1]++
	same := func(b []byte) []byte { return b }
	for name, c := range map[string]struct {
		run    slot.Root
		reach  []Position
		damage func([]byte) []byte
		kept   bool
	}{
		"its own state":  {slot.Root{}, []Position{after(1), after(2), after(3)}, same, true},
		"another branch": {slot.Root{}, []Position{after(2), branch}, same, false},
		"it is past":     {slot.Root{}, []Position{after(4)}, same, false},
		"another run":    {slot.Root{1}, []Position{after(3)}, same, false},
		"empty":          {slot.Root{}, []Position{after(3)}, func([]byte) []byte { return nil }, false},
		"cut":            {slot.Root{}, []Position{after(3)}, func(b []byte) []byte { return b[1:] }, false},
		"longer":         {slot.Root{}, []Position{after(3)}, func(b []byte) []byte { return append(b, 0) }, false},
		"a bit off": {slot.Root{}, []Position{after(3)}, func(b []byte) []byte {
			b[len(b)/2] ^= 1
			return b
		}, false},
	} {
		dir := t.TempDir()
		before := indebted(t, dir)
		files, err := filepath.Glob(filepath.Join(dir, debtFolder, "state-*"))
		if err != nil || len(files) != 1 {
			t.Fatal(files, err)
		}
		b, err := os.ReadFile(files[0])
		if err = errors.Join(err, os.WriteFile(files[0], c.damage(b), 0o600)); err != nil {
			t.Fatal(err)
		}
		got, d, log := opened(codec.Int4, 1, dir, c.run)
		for _, at := range c.reach {
			d.reached(at)
		}
		if kept := got.feedback.mu.debt[0] != nil; kept != c.kept || kept == warned.MatchString(log.String()) {
			t.Errorf("%s: kept is %v; the log says %q", name, kept, log)
		} else if kept && !slices.Equal(got.feedback.mu.debt[0], before.feedback.mu.debt[0]) {
			t.Errorf("%s: another debt", name)
		}
		if err := saved(d, after(3)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A contribution of before a kill that a record lists has paid what was owed, and nobody knows what
// is owed of it.
func TestAListedContributionOfBeforeAKillHasPaid(t *testing.T) {
	dir := t.TempDir()
	indebted(t, dir)
	c, d, _ := opened(codec.Int4, 1, dir, slot.Root{})
	d.reached(after(3))
	n := c.feedback.sizes[0]
	held := slices.Clone(c.feedback.mu.debt[0])
	c.settle(listing(4, 0, slot.Root{9}, n, func(f int) bool { return f == 0 }))
	e := c.feedback.mu.debt[0]
	if slices.ContainsFunc(e[:feedbackFrame], func(v float32) bool { return v != 0 }) ||
		!slices.Equal(e[feedbackFrame:], held[feedbackFrame:]) {
		t.Error("owed is not what was owed but in the segment that listed this peer")
	}
}

func saved(d *debtFile, at Position) error {
	w, err := d.write(at)
	return errors.Join(err, d.publish(w))
}
