package main

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

func TestPrintStatus(t *testing.T) {
	s := p2pdiloco.Status{
		Peer: "self", Run: "books", RunID: p2pdiloco.Root{1}, Phase: p2pdiloco.PhasePaused,
		Detail:      "2 of 4 members are heard",
		Provisional: "it may end", Alarm: "what this peer sends is wrong",
		Spec: map[string]string{"aggregator": "trimmed_mean"}, Parameters: 1000, Slot: 3, LastSlot: 8, Height: 5,
		StateRoot: p2pdiloco.Root{2},
		Sent:      1500, Received: 12, MaxUpload: 2_500_000, MaxDownload: 5_000_000,
		Exchange: p2pdiloco.ExchangeStatus{
			Now:  &p2pdiloco.SlotTime{Slot: 4, Expected: 2300 * time.Millisecond, Relayed: 1_500_000},
			Last: &p2pdiloco.SlotTime{Slot: 3, Expected: 2 * time.Second, Took: 2100 * time.Millisecond},
		},
		Process: p2pdiloco.ProcessStatus{HeapBytes: 40_000, SharedBytes: 8_000, SharedVectors: 2},
		Traffic: p2p.Traffic{Exchange: p2p.Bytes{Sent: 1400}, Control: p2p.Bytes{Sent: 100}}, Uptime: 90 * time.Second,
		Contributors: 4, Tolerated: 1,
		Agreement: &p2pdiloco.AgreementStatus{
			Trust: p2pdiloco.TrustByzantine, Electors: 4, Quorum: 3, Liars: 1, Text: "4 electors: withstands 1",
			Votes: "the first 4 were given theirs", Leader: "drops nobody", Operator: "can stop its own peers",
		},
		Vote: &p2pdiloco.VoteStatus{Contributions: 3, Needed: 4, Text: "3 of 4 contributions until a vote"},
		Members: []p2pdiloco.MemberStatus{
			{Peer: "self", Self: true, State: "training", Slot: 3, Steps: 7},
			{Peer: "late", State: "late", Slot: 3, Heard: 1500 * time.Millisecond},
			{
				Peer: "mute", State: "mute", Fault: "has not voted for 8 heights",
				Figures:   &p2pdiloco.FiguresStatus{Slot: 3, Norm: 2, Cosine: new(-.75), Trimmed: .125, Clip: .5},
				StandsOut: []p2pdiloco.Finding{{Words: "sends nothing new", Since: 2}},
			},
			{Peer: "gone", State: "missing", Slot: 2, Heard: time.Minute, Leader: true},
			{Peer: "some", Path: &p2p.Path{Way: p2p.WayDirect, Transport: "quic-v1", RTT: time.Second}},
			{Peer: "same", State: "training", Path: &p2p.Path{Way: p2p.WayRelayed, Relay: "relay"}},
		},
	}
	var out strings.Builder
	must(t, printStatus(&out, s, true))
	text := spaces.ReplaceAllString(out.String(), " ")
	for _, want := range []string{
		"books", "up 1m30s", "branch", "it may end",
		"paused (2 of 4 members are heard)", "3 of 8", "height", s.StateRoot.String(),
		"slot 3 took 2.1s (2s expected from the links)",
		"slot 4 is under way (2.3s expected from the links, 1.5 MB of it through relays)",
		"1.5 kB sent, 12 B received (at most 2.5 MB/s sent and 5.0 MB/s received)",
		"40 kB on the heap, and 8.0 kB shared with the trainer: 2 vectors of the model in float32",
		"exchange 1.4 kB sent", "control 100 B sent",
		"trust byzantine, 4 electors: withstands 1", "votes the first 4 were given theirs",
		"a leader drops nobody", "an operator can stop its own peers",
		"own vote", "3 of 4 contributions until a vote",
		"1 of the 4 contributors may send wrong values", short("late") + ": It is late",
		short("gone") + ": It is not heard",
		short("mute") + ": It has not voted for 8 heights", "itself", "60s ago", "leader", "direct quic 1000 ms",
		"relayed", "Its bytes go through " + short("relay"), "not connected", "ALARM", "what this peer sends is wrong",
		short("mute") + ": It sends nothing new, since slot 2", "-0.75", "12%", "0.125", "height 5 ",
		"parameters 1000 elements of the model",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing:\n%s", want, out.String())
		}
	}
}

// spaces are those between the cells of a line.
var spaces = regexp.MustCompile(" +")

func short(p p2pdiloco.PeerID) string { return p.Short() }

// A status shows what members say of themselves, and their steps if they train.
func TestWhatMembersSay(t *testing.T) {
	var out strings.Builder
	s := p2pdiloco.Status{Peer: "c", Members: []p2pdiloco.MemberStatus{
		{Peer: "a", State: "training", Steps: 7, Assigned: 20, Says: &p2pdiloco.Claims{
			Name: "rack 1", Version: "v1", Loss: new(2.5), HeldOut: new(2.75), TokensPerSecond: new(1234.5),
			StalledShare: new(.125), MemoryBytes: new(3e9), UpBytesPerSecond: new(1.5e6), DownBytesPerSecond: new(-1.),
		}},
		{Peer: "b", State: "late", Steps: 5, Says: &p2pdiloco.Claims{MemoryBytes: new(1e300)}},
		{Peer: "c", State: "voting", Assigned: 20},
	}}
	must(t, printStatus(&out, s, true))
	_, shown, _ := strings.Cut(out.String(), "MEMBER")
	shown, figures, _ := strings.Cut(shown, "MEMBER")
	for text, want := range map[string][]string{
		shown: {"NAME  TOKENS/S  LOSS", "rack 1  7/20  1234  2.5", "5", "voting"},
		figures: {
			"LOSS  HELD OUT LOSS", "2.5  2.75  1234  0.125  1.5 MB  0 B  3.0 GB", "1.0 EB  -", "-",
		},
	} {
		rows := strings.Split(strings.TrimSpace(text), "\n")
		for i, want := range want {
			for part := range strings.SplitSeq(want, "  ") {
				if !strings.Contains(rows[i], part) {
					t.Errorf("%q is missing in %q", part, rows[i])
				}
			}
		}
	}
}

func TestPrintStatusOfASearch(t *testing.T) {
	var out strings.Builder
	if err := printStatus(&out, p2pdiloco.Status{
		Peer: "self", Run: "books",
		Phase: p2pdiloco.PhaseSearching,
	}, true); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); !strings.Contains(text, "searching") || strings.Contains(text, "MEMBER") ||
		strings.Contains(text, "\nslot ") {
		t.Errorf("a peer without a run prints\n%s", text)
	}
}

func TestPrintStats(t *testing.T) {
	some := func(v float64) *float64 { return &v }
	for _, c := range []struct {
		given       p2pdiloco.StatsStatus
		want, never []string
	}{
		{p2pdiloco.StatsStatus{}, nil, []string{"loss", "norm", "slot_contributors"}},
		{
			p2pdiloco.StatsStatus{Loss: some(3.5)},
			[]string{"3.5000 held out, after slot 0"},
			[]string{"norm", "slot_contributors"},
		},
		{
			p2pdiloco.StatsStatus{Slot: 3, Contributors: 4, Norm: 1.25},
			[]string{"slot_contributors 4 ", "gradient_norm 1.25 ", "slot_staleness_max 0 "},
			[]string{"own_g", "cosine", "between", "loss"},
		},
		{
			p2pdiloco.StatsStatus{
				Slot: 3, Contributors: 4, Staleness: 0.5, MaxStaleness: 2, Norm: 1.25, OwnNorm: some(2),
				Cosine: some(0.834), PairCosine: some(-0.5),
				Loss: some(2), LossSlot: 2,
			},
			[]string{
				"slot_staleness_mean 0.5 ", "slot_staleness_max 2 ", "gradient_norm 1.25 ", "own_gradient_norm 2 ",
				"own_gradient_cosine 0.834 ", "pair_cosine -0.5 ", "after slot 2",
			},
			nil,
		},
	} {
		var out strings.Builder
		s := p2pdiloco.Status{Peer: "self", Run: "books", RunID: p2pdiloco.Root{1}, Stats: c.given}
		must(t, printStatus(&out, s, true))
		text := spaces.ReplaceAllString(out.String(), " ")
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("%q is missing:\n%s", want, text)
			}
		}
		for _, never := range c.never {
			if strings.Contains(text, never) {
				t.Errorf("%q is told, and not known:\n%s", never, text)
			}
		}
	}
}

// The status says that a time is not known yet, so that it does not look broken.
func TestExpectedTime(t *testing.T) {
	const unknown = "links are not measured before 4 MiB were sent to a member"
	for want, s := range map[string]p2pdiloco.SlotTime{
		" (" + unknown + ")":                              {},
		" (2s expected from the links)":                   {Expected: 2 * time.Second},
		" (" + unknown + ", 1.5 MB of it through relays)": {Relayed: 1.5e6},
	} {
		if got := expected(s); got != want {
			t.Errorf("%+v: %q, want %q", s, got, want)
		}
	}
}

func TestTolerance(t *testing.T) {
	s := p2pdiloco.Status{Contributors: 3, Spec: map[string]string{"aggregator": "mean"}}
	if got := tolerance(s); !strings.Contains(got, "no protection: with mean and 3 contributors, one") {
		t.Errorf("got %q", got)
	}
	s.Contributors = 1
	if got := tolerance(s); !strings.Contains(got, "with mean and 1 contributor, one") {
		t.Errorf("got %q", got)
	}
}

// Who may harm the model is said with the samples that were really taken: fewer than the run asks
// for where they would cost too much.
func TestSamplesOfStatus(t *testing.T) {
	for _, c := range []struct {
		asked string
		audit *p2pdiloco.AuditStatus
		want  string
	}{
		{"0", nil, "is not checked"},
		{"24", nil, "(24 samples of each piece, or fewer that cost no more than 5% of a slot's bytes)"},
		{"24", &p2pdiloco.AuditStatus{Slot: 7, Samples: 24, Of: 24}, "(24 samples of each piece in slot 7)"},
		{
			"24", &p2pdiloco.AuditStatus{Slot: 7, Samples: 6, Of: 24, Why: "it is dear"},
			"(6 samples of each piece in slot 7, of 24: it is dear)",
		},
		{"24", &p2pdiloco.AuditStatus{Slot: 7, Samples: 6, Of: 24, Whole: true}, "(all of each piece)"},
		{"all", &p2pdiloco.AuditStatus{Slot: 7, Samples: 9, Whole: true}, "(all of it)"},
	} {
		s := p2pdiloco.Status{Contributors: 5, Audit: c.audit, Spec: map[string]string{
			"audit_samples": c.asked, "trust": p2pdiloco.TrustByzantine,
		}}
		if got := tolerance(s); !strings.HasSuffix(got, c.want) {
			t.Errorf("%s, %+v: %q, want %q", c.asked, c.audit, got, c.want)
		}
	}
}

// With trust crash nobody audits owners, whatever the run asks for: a status that says otherwise
// promises a safety that is not there.
func TestNothingIsCheckedWithTrustCrash(t *testing.T) {
	s := p2pdiloco.Status{Contributors: 5, Spec: map[string]string{
		"audit_samples": "3", "trust": p2pdiloco.TrustCrash,
	}}
	if got := tolerance(s); !strings.HasSuffix(got, "what owners reduce is not checked") {
		t.Errorf("with trust crash: %q", got)
	}
}
