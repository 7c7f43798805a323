package spec

import (
	"fmt"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/outeropt"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// given makes a spec of settings as a user gives them.
func given(t *testing.T, settings string) Spec {
	t.Helper()
	s := testSpec()
	for setting := range strings.FieldsSeq(settings) {
		name, text, _ := strings.Cut(setting, "=")
		for _, f := range table {
			if f.Name != name {
				continue
			}
			if err := f.Set(&s, text); err != nil {
				t.Fatal(err)
			}
			name = ""
		}
		if name != "" {
			t.Fatalf("there is no field %s", name)
		}
	}
	return s
}

// What is not given gets a value that fits the rest, and what is given stays.
func TestDefaults(t *testing.T) {
	for _, f := range table {
		if s := testSpec().Settled(); f.Text(s) != f.Default && (f.Default != "" || f.Text(s) == "" && !f.mayLack()) {
			t.Errorf("%s settles to %q, its default is %q", f.Name, f.Text(s), f.Default)
		}
	}
	for _, c := range [][2]string{
		{"", "outer_lr=0.7 momentum=0.9 fragment_delay=0 fragment_alpha=0 trust=byzantine max_weight_ratio=8"},
		{"mode=delayed", "outer_lr=0.7 momentum=0"},
		{"mode=eager outer_lr=0.5 momentum=0.3", "outer_lr=0.5 momentum=0.3"},
		{"mode=delayed outer=delayed_nesterov", "outer_lr=0.7 momentum=0.9"},
		{"outer=sgd", "outer_lr=0.7 momentum=0"},
		{"outer=adam", "outer_lr=0.01 momentum=0.9"},
		{"outer=adam outer_lr=0.3", "outer_lr=0.3 momentum=0.9"},
		{"codec=topk", "outer=sgd outer_lr=1 momentum=0 aggregator=mean clip=on outcome_codec=topk:256:4 frame=4096"},
		{"codec=topk:32:4 start_peers=8 outer=nesterov clip=off", "momentum=0.9 clip=off outcome_codec=topk:256:4"},
		{"codec=topk start_peers=17", "outcome_codec=int4"},
		{"codec=sign outcome_codec=topk:512:4", "outer=nesterov aggregator=trimmed_mean frame=4096"},
		{"outer=adam mode=delayed", "outer_lr=0.01 momentum=0"},
		{"mode=async", "pace=dylu outer=sgd momentum=0 discount=1000,500,333,250"},
		{"mode=async outer=delayed_nesterov", "momentum=0.6 dn_every=4"},
		{"mode=async outer=nesterov pace=steps discount=1000", "outer=nesterov pace=steps discount=1000"},
		{"mode=streaming inner_steps=500", "fragment_delay=50 fragment_alpha=0 momentum=0.9"},
		{"mode=streaming inner_steps=500 fragments=16", "fragment_delay=31"},
		{"mode=streaming inner_steps=9 fragments=4 fragment_alpha=0.5", "fragment_delay=1 fragment_alpha=0.5"},
		{"mode=streaming inner_steps=500 fragments=4 fragment_delay=0 outer=sgd", "fragment_delay=0 momentum=0"},
		{"mode=streaming inner_steps=1", "fragment_delay=0"},
		{"mode=streaming inner_steps=4 fragments=4", "fragment_delay=1"},
		{"access=open", "trust=byzantine max_weight_ratio=8"},
		{"trust=crash", "trust=crash max_weight_ratio=0"},
		{"schedule=ring", "trust=crash max_weight_ratio=0"},
		{"schedule=auto", "trust=byzantine max_weight_ratio=8"},
		{"schedule=rotation", "trust=byzantine max_weight_ratio=8"},
		{"access=private trust=byzantine", "trust=byzantine max_weight_ratio=8"},
		{"access=private", "trust=crash max_weight_ratio=0"},
		{"max_weight_ratio=3", "trust=byzantine max_weight_ratio=3"},
	} {
		s := given(t, c[0]).Settled()
		if err := s.Validate(); err != nil {
			t.Errorf("%s: %v", c[0], err)
		}
		for want := range strings.FieldsSeq(c[1]) {
			name, text, _ := strings.Cut(want, "=")
			if got := s.Fields()[name]; got != text {
				t.Errorf("%s: %s settles to %q, want %q", c[0], name, got, text)
			}
		}
		if s.Byzantine() != (s.Trust == TrustByzantine) || s.WeightRatio() != uint64(s.MaxWeightRatio[0]-'0') {
			t.Errorf("%s: %v, %d", c[0], s.Byzantine(), s.WeightRatio())
		}
	}
	s := given(t, "mode=delayed outer_lr=0.1").Settled()
	if !s.Overlaps() || testSpec().Settled().Overlaps() || number(s.OuterLR) != float32(0.1) {
		t.Errorf("what follows from %+v: %v", s, s.Overlaps())
	}
}

// Each combination that makes no sense is refused by the name of the field to change, also where
// only some are given.
func TestFaults(t *testing.T) {
	for settings, want := range map[string]string{
		"mode=streaming outer=delayed_nesterov": "outer = ",
		// a ticket could not have it
		"name=a\u200db":                              "name = ",
		"name=a\u202eb":                              "name = ",
		"name=a\xff":                                 "name = ",
		"mode=sync fragments=2":                      "fragments = ",
		"mode=delayed fragment_delay=3":              "fragment_delay = ",
		"mode=eager fragment_alpha=0.5":              "fragment_alpha = ",
		"mode=streaming discount=1000,500":           "discount = ",
		"mode=streaming fragments=11 inner_steps=10": "fragments = ",
		"fragments=2 discount=1000,500":              "the next slot takes another",
		"fragments=257":                              "fragments = 257: allowed: 1 to 256",
		"mode=streaming fragments=4 inner_steps=10 fragment_delay=3":  "fragment_delay = ",
		"mode=streaming fragments=1 inner_steps=10 fragment_delay=10": "fragment_delay = ",
		"mode=streaming pace=dylu":                                    "pace = ",

		"fragment_delay=03":             "fragment_delay = ",
		"fragment_delay=-1":             "fragment_delay = ",
		"fragment_delay=1.5":            "fragment_delay = ",
		"fragment_alpha=1.1":            "fragment_alpha = ",
		"fragment_alpha=half":           "fragment_alpha = ",
		"codec=topk:0:2":                "codec = topk:0:2: allowed: ",
		"outcome_codec=sign":            "outcome_codec = sign: allowed: ",
		"codec=topk aggregator=median":  "aggregator = median: with codec topk",
		"codec=topk schedule=auto":      "schedule = auto: with topk",
		"codec=topk frame=2048":         "frame = 2048: ",
		"fragment_order=random":         "fragment_order = random: allowed: strided, sequential",
		"pace=deadline":                 "pace = ",
		"pace=fast":                     "pace = ",
		"mode=async fragments=2":        "fragments = ",
		"pace=dylu fragments=2":         "pace = ",
		"trust=friends":                 "trust = friends: allowed: crash, byzantine",
		"trust=byzantine schedule=ring": "schedule = ring: with trust byzantine rotation or auto",
		// with trust crash they would promise what nobody does
		"trust=crash audit_samples=3":   "audit_samples = 3: it is for trust byzantine",
		"trust=crash audit_samples=all": "audit_samples = all: it is for trust byzantine",
		"trust=crash max_electors=7":    "max_electors = 7: it is for trust byzantine",
		"trust=crash newcomer_share=10": "newcomer_share = 10: it is for trust byzantine",
		"max_weight_ratio=08":           "max_weight_ratio = 08: allowed: 0 to 65536",
		"term_cap=500ms":                "term_cap = 500ms: allowed: whole seconds from 1s to 168h",
		"term_cap=168h0m1s":             "term_cap = 168h0m1s: allowed: whole seconds from 1s to 168h",
		"term_cap=-1h":                  "term_cap = -1h: allowed",
	} {
		s := given(t, settings)
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", settings, err)
		}
		if _, err := Parse(s.Settled().Append(nil)); s.Fragments > 1 && s.Mode == "" && err == nil {
			t.Errorf("%s: a stranger's is accepted", settings)
		}
	}
	for _, settings := range []string{
		"name=Bücher/2", "name=本",
		"fragments=4 fragment_delay=2", // the mode is adopted
		"mode=streaming fragment_delay=100",
		"mode=streaming fragments=4 inner_steps=10 fragment_delay=2",
		"mode=sync fragments=1 fragment_delay=0 fragment_alpha=0",
		"trust=byzantine schedule=auto", "trust=byzantine schedule=rotation", "trust=crash schedule=ring",
		"trust=byzantine max_electors=7 newcomer_share=10 audit_samples=3",
		"max_electors=7 newcomer_share=10 audit_samples=3", // a peer that joins, say
		"term_cap=1m", "term_cap=168h",
	} {
		if err := given(t, settings).Validate(); err != nil {
			t.Errorf("%s: %v", settings, err)
		}
	}
	// What cannot be divided into the peers' parts is no optimizer of modes that take a part ahead.
	for _, outer := range outeropt.Names() {
		for _, mode := range []string{ModeSync, ModeDelayed, ModeEager, ModeAsync} {
			err := given(t, "mode="+mode+" outer="+outer).Validate()
			if (err == nil) != (outer != outeropt.Adam || mode != ModeEager && mode != ModeAsync) {
				t.Errorf("%s in mode %s: %v", outer, mode, err)
			}
		}
	}
	for want, founders := range map[string][]trainer.PeerID{
		"founders = 32: at most 31": make([]trainer.PeerID, maxFounders+1), "this is no peer ID": {"short"},
		"it is there twice": {ids[0], ids[0]},
	} {
		s := testSpec()
		if s.Founders = founders; s.Validate() == nil || !strings.Contains(s.Validate().Error(), want) {
			t.Errorf("%s: %v", want, s.Validate())
		}
	}
	s := given(t, "fragments=4")
	s.Layout = trainer.Layout{{Name: "x", Shape: []uint64{3}}}
	if err := fmt.Sprint(s.Validate()); !strings.Contains(err, "more than the model's 3 elements") {
		t.Error(err)
	}
}

func TestValidateReportsEveryFaultAtOnce(t *testing.T) {
	s := given(t, "name=- mode=wild rounds=1099511627776 outer=adamw outer_lr=1e3 momentum=1.5 aggregator=max "+
		"trim_permille=500 clip=maybe codec=int5 frame=1000 init=root:12 start_peers=2 min_peers=3 discount=500,600")
	s.Name = "two words"
	err := s.Validate()
	for name := range s.Fields() {
		if name != "start_peers" && (err == nil || !strings.Contains(err.Error(), "run spec: "+name+" = ")) {
			t.Errorf("fault of %s is not reported", name)
		}
	}
	if !strings.Contains(err.Error(), "allowed: mean, trimmed_mean, median") {
		t.Errorf("allowed values are not told: %v", err)
	}
}

// A round has fragments of its own size each, and slots take them in turn.
func TestFragments(t *testing.T) {
	s := given(t, "mode=streaming fragments=7 rounds=5").Settled()
	if s.Validate() != nil || s.LastSlot() != 35 || s.FragmentOf(1) != 0 || s.FragmentOf(35) != 6 {
		t.Errorf("%v: last slot %d, fragments %d and %d", s.Validate(), s.LastSlot(), s.FragmentOf(1), s.FragmentOf(35))
	}
	for p, f := range s.Partition() {
		if f.Elements() != 430 || s.FragmentElements()[p] != 430 {
			t.Errorf("fragment %d has %d elements", p, f.Elements())
		}
	}
}
