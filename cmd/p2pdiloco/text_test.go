package main

import (
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
		},
	}
	var out strings.Builder
	must(t, printStatus(&out, s, true))
	for _, want := range []string{
		"books", "up 1m30s", "branch", "it may end",
		"paused (2 of 4 members are heard)", "3 of 8", "height", s.StateRoot.String(),
		"slot 3 took 2.1s (2s expected from the links); slot 4 is under way (2.3s expected from the links, 1.5 MB of " +
			"it " +
			"through relays)", "1.5 kB sent, 12 B received (at most 2.5 MB sent and 5.0 MB received a second)",
		"40 kB on the heap, and 8.0 kB shared with the trainer: 2 vectors of the model in float32",
		"all-reduce 1.4 kB, states 0 B, control 100 B",
		"trust byzantine, 4 electors: withstands 1", "votes        the first 4 were given theirs",
		"a leader     drops nobody", "an operator  can stop its own peers",
		"own vote", "3 of 4 contributions until a vote",
		"1 of the 4 contributors may send wrong values", p2pdiloco.PeerID("late").Short() + " is late",
		p2pdiloco.PeerID("gone").Short() + " is missing",
		p2pdiloco.PeerID("mute").Short() + " has not voted for 8 heights",
		"itself", "1.5s ago", "leader", "ALARM", "what this peer sends is wrong",
		p2pdiloco.PeerID("mute").Short() + " sends nothing new, since slot 2", "-0.75", "12%",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing:\n%s", want, out.String())
		}
	}
}

// A status shows what members say of themselves, and their steps if they train.
func TestWhatMembersSay(t *testing.T) {
	var out strings.Builder
	printMembers(&out, []p2pdiloco.MemberStatus{
		{Peer: "a", State: "training", Steps: 7, Assigned: 20, Says: &p2pdiloco.Claims{
			Name: "rack 1", Version: "v1", Loss: new(2.5), HeldOut: new(2.75), TokensPerSecond: new(1234.5),
			StalledShare: new(.125), MemoryBytes: new(3e9), UpBytesPerSecond: new(1.5e6), DownBytesPerSecond: new(-1.),
		}},
		{Peer: "b", State: "late", Steps: 5, Says: &p2pdiloco.Claims{MemoryBytes: new(1e300)}},
		{Peer: "c", State: "voting", Assigned: 20},
	})
	rows := strings.Split(strings.TrimSpace(out.String()), "\n")
	for i, want := range []string{
		"NAME  SAYS OF ITSELF",
		"rack 1  7 of 20  loss 2.5000, 2.7500 held out, 1234 tokens/s, stalled 12%, 1.5 MB/s up, 0 B/s down, " +
			"3.0 GB of memory, version v1",
		"-  5  1.0 EB of memory, version unknown",
		"-  voting  -",
	} {
		for part := range strings.SplitSeq(want, "  ") {
			if !strings.Contains(rows[i], part) {
				t.Errorf("%q is missing in %q", part, rows[i])
			}
		}
	}
}

// A status says of each member how it is reached.
func TestWaysToMembers(t *testing.T) {
	relay := p2pdiloco.PeerID("relay")
	for _, c := range []struct {
		member p2pdiloco.MemberStatus
		want   string
	}{
		{p2pdiloco.MemberStatus{Self: true}, ""},
		{p2pdiloco.MemberStatus{}, "not connected"},
		{
			p2pdiloco.MemberStatus{Path: &p2p.Path{Way: p2p.WayDirect, Transport: "quic-v1", RTT: time.Second}},
			"direct quic 1s",
		},
		{p2pdiloco.MemberStatus{Path: &p2p.Path{Way: p2p.WayPunched, Transport: "tcp"}}, "punched tcp"},
		{p2pdiloco.MemberStatus{Path: &p2p.Path{Way: p2p.WayRelayed, Relay: relay}}, "relayed by " + relay.Short()},
	} {
		if got := wayTo(c.member); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
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
		strings.Contains(text, "slot") {
		t.Errorf("a peer without a run prints\n%s", text)
	}
}

func TestPrintStats(t *testing.T) {
	some := func(v float64) *float64 { return &v }
	for _, c := range []struct {
		given       p2pdiloco.StatsStatus
		want, never []string
	}{
		{p2pdiloco.StatsStatus{}, nil, []string{"loss", "norm", "contributors"}},
		{
			p2pdiloco.StatsStatus{Loss: some(3.5)},
			[]string{"3.5000 held out, after slot 0"},
			[]string{"norm", "contributors"},
		},
		{
			p2pdiloco.StatsStatus{Slot: 3, Contributors: 4, Norm: 1.25},
			[]string{"4 contributors, none stale", "norm 1.25"},
			[]string{"own", "cosine", "between", "loss"},
		},
		{
			p2pdiloco.StatsStatus{
				Slot: 3, Contributors: 4, Staleness: 0.5, MaxStaleness: 2, Norm: 1.25, OwnNorm: some(2),
				Cosine: some(0.834), PairCosine: some(-0.5),
				Loss: some(2), LossSlot: 2,
			},
			[]string{
				"stale by 0.5 slots in the mean, 2 at most",
				"norm 1.25, own 2, cosine of own to it 0.83, between peers -0.50", "after slot 2",
			},
			nil,
		},
	} {
		var out strings.Builder
		s := p2pdiloco.Status{Peer: "self", Run: "books", RunID: p2pdiloco.Root{1}, Stats: c.given}
		must(t, printStatus(&out, s, true))
		for _, want := range c.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%q is missing:\n%s", want, out.String())
			}
		}
		for _, never := range c.never {
			if strings.Contains(out.String(), never) {
				t.Errorf("%q is told, and not known:\n%s", never, out.String())
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
