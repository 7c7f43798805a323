package membership

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// plantVariable names the fault that TestRandom's disks have in a process that looks for it.
const plantVariable = "P2PDILOCO_RANDOM_PLANT"

var randomPlants = map[string]func(wire.Entry) bool{
	"m1":  forgets[wire.EntryPromise],
	"m2":  forgets[wire.EntryHave],
	"m3":  forgets[wire.EntryVote],
	"seq": forgets[wire.EntryOffer],
}

// TestRandomFindsFaults takes one entry of the disks away at a time, and expects TestRandom, the
// one search that mixes all that can go wrong, to find what that breaks within a minute. It runs in
// a process of its own, since it ends a test to say so.
func TestRandomFindsFaults(t *testing.T) {
	if !testutil.Nightly() {
		t.Skip("it takes a minute or so")
	}
	found := regexp.MustCompile(`failed after (\d+) tests`)
	for name := range randomPlants {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			// the same worlds each time
			cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestRandom$", "-rapid.seed=20261126",
				"-rapid.shrinktime=1ms", "-rapid.nofailfile")
			cmd.Env = append(os.Environ(), plantVariable+"="+name, "P2PDILOCO_TEST=nightly")
			begun := time.Now()
			out, err := cmd.CombinedOutput()
			after := found.FindSubmatch(out)
			if err == nil || after == nil {
				t.Fatalf("not found: %v\n%.2000s", err, out)
			}
			t.Logf("after %s worlds, %v of a shared machine", after[1], time.Since(begun).Round(time.Second))
		})
	}
}
