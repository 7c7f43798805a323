package spec

import (
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/outeropt"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// ids are valid peer IDs, in order.
var ids = func() (all []trainer.PeerID) {
	for _, c := range "abc" {
		all = append(all, trainer.PeerID(strings.Repeat(string(c), 38)))
	}
	return all
}()

func TestDefaultsOfTrust(t *testing.T) {
	for _, c := range []struct {
		given        Spec
		trust, ratio string
	}{
		{Spec{}, TrustByzantine, "8"},
		{Spec{Access: AccessOpen}, TrustByzantine, "8"},
		{Spec{Trust: TrustCrash}, TrustCrash, "0"},
		{Spec{Schedule: "ring"}, TrustCrash, "0"},
		{Spec{Schedule: "auto"}, TrustByzantine, "8"},
		{Spec{Schedule: "rotation"}, TrustByzantine, "8"},
		{Spec{Access: AccessPrivate, Trust: TrustByzantine}, TrustByzantine, "8"},
		{Spec{Access: AccessPrivate}, TrustCrash, "0"},
		{Spec{Trust: TrustByzantine}, TrustByzantine, "8"},
		{Spec{Trust: TrustByzantine, MaxWeightRatio: "0"}, TrustByzantine, "0"},
		{Spec{MaxWeightRatio: "3"}, TrustByzantine, "3"},
	} {
		s := testSpec()
		s.Trust, s.Access, s.MaxWeightRatio = c.given.Trust, c.given.Access, c.given.MaxWeightRatio
		s.Schedule = c.given.Schedule
		s = s.Settled()
		if s.Trust != c.trust || s.MaxWeightRatio != c.ratio || s.Validate() != nil {
			t.Errorf("%+v: trust %s, ratio %s, %v", c.given, s.Trust, s.MaxWeightRatio, s.Validate())
		}
		if s.Byzantine() != (c.trust == TrustByzantine) || s.WeightRatio() != uint64(c.ratio[0]-'0') {
			t.Errorf("%+v: %v, %d", c.given, s.Byzantine(), s.WeightRatio())
		}
	}
}

// A run that an earlier release founded may have what is refused now. Its peers can still read it.
func TestARunOfAnEarlierReleaseIsRead(t *testing.T) {
	crash, async := testSpec(), testSpec()
	crash.Trust, crash.AuditSamples, crash.MaxElectors = TrustCrash, "3", 7
	async.Mode, async.Outer = ModeAsync, outeropt.Adam
	for name, s := range map[string]Spec{"crash": crash.Settled(), "async": async.Settled()} {
		if _, err := Parse(s.Append(nil)); err != nil || s.Validate() == nil {
			t.Errorf("%s: it is read with %v, and given with %v", name, err, s.Validate())
		}
	}
}

func TestFaultsOfTrust(t *testing.T) {
	many := make([]trainer.PeerID, maxFounders+1)
	for _, c := range []struct {
		given Spec
		want  string
	}{
		{Spec{Trust: "friends"}, "trust = friends: allowed: crash, byzantine"},
		{Spec{Trust: TrustByzantine, Schedule: "ring"}, "schedule = ring: with trust byzantine rotation or auto"},
		{Spec{Trust: TrustByzantine, Schedule: "auto"}, ""},
		// with trust crash they would promise what nobody does
		{Spec{Trust: TrustCrash, AuditSamples: "3"}, "audit_samples = 3: it is for trust byzantine"},
		{Spec{Trust: TrustCrash, AuditSamples: AuditAll}, "audit_samples = all: it is for trust byzantine"},
		{Spec{Trust: TrustCrash, MaxElectors: 7}, "max_electors = 7: it is for trust byzantine"},
		{Spec{Trust: TrustCrash, NewcomerShare: 10}, "newcomer_share = 10: it is for trust byzantine"},
		{Spec{Trust: TrustCrash}.Settled(), ""},
		{Spec{Trust: TrustByzantine, MaxElectors: 7, NewcomerShare: 10, AuditSamples: "3"}, ""},
		{Spec{MaxElectors: 7, NewcomerShare: 10, AuditSamples: "3"}, ""}, // a peer that joins, say
		{Spec{Trust: TrustByzantine, Schedule: "rotation"}, ""},
		{Spec{Trust: TrustCrash, Schedule: "ring"}, ""},
		{Spec{MaxWeightRatio: "08"}, "max_weight_ratio = 08: allowed: 0 to 65536"},
		{Spec{TermCap: time.Minute}, ""},
		{Spec{TermCap: 7 * 24 * time.Hour}, ""},
		{Spec{TermCap: time.Second / 2}, "term_cap = 500ms: allowed: whole seconds from 1s to 168h"},
		{Spec{TermCap: 7*24*time.Hour + time.Second}, "term_cap = 168h0m1s: allowed: whole seconds from 1s to 168h"},
		{Spec{TermCap: -time.Hour}, "term_cap = -1h: allowed"},
		{Spec{Founders: many}, "founders = 32: at most 31"},
		{Spec{Founders: []trainer.PeerID{"short"}}, "this is no peer ID"},
		{Spec{Founders: []trainer.PeerID{ids[0], ids[0]}}, "it is there twice"},
		{Spec{Founders: ids}, ""},
	} {
		c.given.Name = "x"
		err := c.given.Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c.given, err)
		}
	}
}

// Founders are a set: the order in which they were given enters neither the run ID nor a
// comparison.
func TestFoundersAreASet(t *testing.T) {
	a, b := testSpec(), testSpec()
	a.Founders, b.Founders = ids, []trainer.PeerID{ids[2], ids[0], ids[1]}
	if a.Settled().RunID() != b.Settled().RunID() || b.Adopt(a.Settled(), "p") != nil {
		t.Error("another order of the founders is another run")
	}
	got, err := Parse(b.Settled().Append(nil))
	if err != nil || got.RunID() != a.Settled().RunID() || len(got.Founders) != 3 {
		t.Errorf("parsed %v, %v", got.Founders, err)
	}
	c := testSpec()
	c.Founders = ids[:2]
	if c.Settled().RunID() == a.Settled().RunID() || c.Adopt(a.Settled(), "p") == nil {
		t.Error("other founders are the same run")
	}
	encoded := a.Settled().Append(nil)
	swapped := strings.Replace(string(encoded), ids[0].String()+","+ids[1].String(),
		ids[1].String()+","+ids[0].String(), 1)
	if _, err := Parse([]byte(swapped)); err == nil || swapped == string(encoded) {
		t.Error("founders out of order are accepted")
	}
}

// A duration has one spelling in a spec, whichever way it was given.
func TestDurationsHaveOneSpelling(t *testing.T) {
	want := testSpec()
	want.TermCap = 90 * time.Minute
	for _, text := range []string{"90m", "1h30m", "1h30m0s", "5400s"} {
		s := testSpec()
		if err := setField(&s.TermCap, text); err != nil || s.Settled().RunID() != want.Settled().RunID() {
			t.Errorf("%s: %v, %s", text, err, s.TermCap)
		}
	}
	for d, text := range map[time.Duration]string{
		time.Second: "1s", 10 * time.Minute: "10m", time.Hour: "1h", 10*time.Hour + 5*time.Second: "10h0m5s", 0: "",
	} {
		if got := brief(d); got != text {
			t.Errorf("%s is spelt %q, not %q", d, got, text)
		}
	}
	encoded := string(want.Settled().Append(nil))
	if _, err := Parse([]byte(strings.Replace(encoded, "1h30m", "90.0m", 1))); err == nil {
		t.Error("another spelling of a duration is accepted")
	}
}
