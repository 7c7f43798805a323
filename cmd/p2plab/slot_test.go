package main

import (
	"encoding/json"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/clitest"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/slotbench"
)

// TestSlot runs the command end to end: whole nodes, a synced disk, and one document on stdout with
// the promised names, in which phases add up.
func TestSlot(t *testing.T) {
	kept := t.TempDir()
	p := clitest.Start(t, t.TempDir(), "bench", "slot", "--peers", "3", "--size", "16KiB", "--slots", "4", "--json",
		"--trusts", "byzantine", "--keep-dir", kept)
	if code := p.Ends(t); code != cli.ExitOK {
		t.Fatalf("exit %d", code)
	}
	var all slotbench.Results
	var named map[string][]map[string]any
	if err := json.Unmarshal(p.Out.Bytes(), &all); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(p.Out.Bytes(), &named); err != nil || len(all.Results) != 1 {
		t.Fatal(err, len(all.Results))
	}
	r, names := all.Results[0], named["results"][0]
	want := []string{
		"bytes", "cores", "memory_of_most_bytes", "missed", "peers", "phases", "preset", "round_trip_seconds",
		"samples", "slot_of_all_peers", "slot_of_most", "slots", "trust", "whole",
	}
	if got := slices.Sorted(maps.Keys(names)); !slices.Equal(got, want) {
		t.Errorf("the document has %q, want %q", got, want)
	}
	if r.Trust != "byzantine" || r.Peers != 3 || r.Bytes != 16<<10 || r.Slots != 4 ||
		len(r.Samples)+r.Missed != 3*4 || len(r.Phases) != 7 {
		t.Errorf("%+v", r)
	}
	for _, s := range r.Samples {
		sum := 0.0
		for _, x := range s.Seconds {
			sum += x
		}
		if math.Abs(sum-s.Whole) > 1e-6 || slices.Min(s.Seconds) < 0 {
			t.Errorf("phases do not add up: %+v", s)
		}
	}
	// each peer sends every other one a third of its vector at least, and syncs what it promises
	if c := r.All; c.Exchange < 3*2*(16<<10)/3 || c.Syncs < 3 || c.Signed < 3 || c.Checked < c.Signed ||
		c.Direct+c.Gossiped < 3 || c.Control <= 0 || c.Gossip <= 0 || c.CPU <= 0 {
		t.Errorf("counts %+v", c)
	}
	if left, err := os.ReadDir(kept); err != nil || len(left) != 1 {
		t.Errorf("kept %v, %v", left, err)
	}
}

func TestSlotForPeople(t *testing.T) {
	p := clitest.Start(t, t.TempDir(), "bench", "slot", "--peers", "2", "--size", "4KiB", "--slots", "1")
	if code := p.Ends(t); code != cli.ExitOK {
		t.Errorf("exit %d", code)
	}
	for _, want := range []string{"2 peers, a model of 4.0 KiB", "propose to certificate", "signatures checked"} {
		if !strings.Contains(p.Out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, p.Out.String())
		}
	}
}
