package p2pdiloco

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// A peer that trains makes claims at most every 10 s, and so does one that members have come to.
// Another one waits a minute.
func TestClaimsAreRare(t *testing.T) {
	training := []MemberStatus{{State: "voting"}, {State: "training", Self: true}}
	resting := []MemberStatus{{State: "training"}, {State: "voting", Self: true}}
	for name, c := range map[string]struct {
		now    []MemberStatus
		before int // members, when claims were made last
		phase  Phase
		wait   time.Duration
	}{
		"it trains":                       {training, 2, PhaseRunning, 10 * time.Second},
		"the first slot waits":            {training, 2, PhaseWaiting, time.Minute},
		"it votes alone":                  {resting, 2, PhaseRunning, time.Minute},
		"it votes, and somebody has come": {resting, 1, PhaseRunning, 10 * time.Second},
		"it looks for the run":            {nil, 0, PhaseSearching, time.Minute},
	} {
		const began = time.Hour
		tell := teller{claimed: Status{Uptime: began, Members: make([]MemberStatus, c.before)}}
		for after, want := range map[time.Duration]bool{0: false, c.wait - 1: false, c.wait: true, time.Hour: true} {
			if got := tell.due(Status{Uptime: began + after, Members: c.now, Phase: c.phase}); got != want {
				t.Errorf("%s: after %v it is due: %v", name, after, got)
			}
		}
	}
}

// The version of a program that was built from a commit is the commit.
func TestVersionOfACommit(t *testing.T) {
	for version, want := range map[string]string{
		"v0.0.0-20261129195000-b7959807abcd":         "b7959807abcd",
		"v0.4.2-0.20261129195000-b7959807abcd+dirty": "b7959807abcd",
		"v0.4.1": "v0.4.1", "v1.0.0-rc.1": "v1.0.0-rc.1", "": ProtocolVersion, "(devel)": ProtocolVersion,
	} {
		if got := shortVersion(version); got != want {
			t.Errorf("%q is shown as %q", version, got)
		}
	}
}

// A line has what changed since the line before.
func TestSlotMetricsAreDifferences(t *testing.T) {
	before := Status{Slot: 3, Sent: 100, Received: 10, Uptime: 10 * time.Second, Training: 8 * time.Second}
	before.Stats.Tokens = 1000
	s := Status{
		Slot: 4, Sent: 600, Received: 40, Uptime: 20 * time.Second, Training: 14 * time.Second, Stall: 2 * time.Second,
		Members: []MemberStatus{{}, {Self: true, Contribution: &ContributionStatus{StepTime: time.Second / 4}}},
	}
	s.Stats = StatsStatus{Tokens: 6000, Weight: 20000, Contributors: 2, TrainLoss: new(2.5)}
	m := s.slotMetricsSince(before, 90000, time.Unix(5, 0))
	if m.Slot != 4 || m.Tokens != 5000 || m.SlotTokens != 20000 || m.RunTokens != 90000 || *m.TokensPerSecond != 500 ||
		m.Members != 2 || m.Contributors != 2 || m.Seconds != 10 || m.TrainingSeconds != 6 || m.StalledSeconds != 2 ||
		*m.StalledShare != 0.25 || *m.StepSeconds != 0.25 || m.BytesSent != 500 || m.BytesReceived != 30 ||
		*m.Loss != 2.5 || m.HeldOut != nil {
		t.Errorf("%+v", m)
	}
	if idle := before.slotMetricsSince(before, 0, time.Unix(5, 0)); idle.StalledShare != nil ||
		idle.TokensPerSecond != nil {
		t.Errorf("of no time: %+v", idle)
	}
}

// The schema has the keys that a line has where all is known, and demands those that each has.
func TestSchemaOfALine(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("docs", "reference", "metrics.schema.json"))
	noError(t, err)
	var schema struct {
		Properties map[string]any
		Required   []string
	}
	noError(t, json.Unmarshal(text, &schema))
	keys := func(m SlotMetrics) []string {
		line, fields := []byte(nil), map[string]any{}
		line, err = json.Marshal(m)
		noError(t, err)
		noError(t, json.Unmarshal(line, &fields))
		return slices.Sorted(maps.Keys(fields))
	}
	all := SlotMetrics{HeldOutSlot: 1}
	for _, v := range []**float64{
		&all.Loss, &all.HeldOut, &all.TokensPerSecond, &all.StalledShare, &all.StepSeconds, &all.OwnNorm, &all.Cosine,
	} {
		*v = new(1.0)
	}
	slices.Sort(schema.Required)
	if got, want := slices.Sorted(maps.Keys(schema.Properties)), keys(all); !slices.Equal(got, want) {
		t.Errorf("it has the keys %v, a line has %v", got, want)
	}
	if want := keys(SlotMetrics{}); !slices.Equal(schema.Required, want) {
		t.Errorf("it demands %v, each line has %v", schema.Required, want)
	}
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
