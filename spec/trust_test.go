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
