package chaos

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

// TestPresetWANTakesLonger: faults and bounds on waiting follow the timers of the peers, and with
// the preset lan nothing is stretched.
func TestPresetWANTakesLonger(t *testing.T) {
	lan := Config{Seed: 7, Peers: 8, Slots: 200, Kinds: append(Kinds(true), Failpoint)}
	wan := lan
	wan.Preset = "wan"
	drawn, same, long := Schedule(lan.Seed, lan.Peers, lan.Slots, lan.Kinds), lan.schedule(), wan.schedule()
	if !reflect.DeepEqual(drawn, same) {
		t.Error("with the preset lan the schedule is not what was drawn")
	}
	forks := 0
	for i, f := range drawn {
		want := 20 * f.Seconds
		switch {
		case f.Kind == Load:
			want = f.Seconds
		case f.Kind == Partition && f.Seconds >= forkTime:
			forks++
			want = 300 + 20*(f.Seconds-forkTime)
		}
		got := long[i]
		if d := got.Seconds - want; d > 0.1 || d < -0.1 || got.Nap < 19*f.Nap || got.Slot != f.Slot {
			t.Errorf("%+v with the preset wan: %+v, want %v s", f, got, want)
		}
	}
	if forks == 0 {
		t.Error("no partition waits for a fork")
	}
	if lan.stretch(returnWithin) != returnWithin || wan.stretch(time.Second) != 20*time.Second ||
		wan.lostLate() != 90*time.Second || wan.turnAfter() != 15*time.Minute {
		t.Errorf("bounds: %v, %v, %v", wan.stretch(time.Second), wan.lostLate(), wan.turnAfter())
	}
	if lan.link() == wan.link() || wan.link() != wanLink {
		t.Errorf("links: %+v", wan.link())
	}
	if strings.Contains(lan.Replay(), "preset") || !strings.Contains(wan.Replay(), " --preset wan") {
		t.Errorf("replay: %s", wan.Replay())
	}
}
