package reduce

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/lab/bench"
)

// scripted is a contender whose rounds take what a list says.
type scripted struct {
	name string
	log  *[]string
	next []float64
}

func (s *scripted) Round(_ context.Context, measured bool) (bench.Round, error) {
	if measured {
		*s.log = append(*s.log, s.name)
	}
	if len(s.next) == 0 {
		return bench.Round{}, errors.New("no more")
	}
	t := s.next[0]
	s.next = s.next[1:]
	return bench.Round{Seconds: t, CPU: 2 * t, Sent: 1e9}, nil
}

func (s *scripted) Close() {}

// Contenders take turns, the first two rounds don't count, and each is held against its turn's.
func TestAlternate(t *testing.T) {
	var log []string
	a, b := &scripted{"a", &log, []float64{9, 9, 1, 5, 2}}, &scripted{"b", &log, []float64{9, 9, 2, 4, 4}}
	all, err := alternate(t.Context(), []contender{a, b}, 3)
	if err != nil || strings.Join(log, "") != "ababab" {
		t.Fatal(log, err)
	}
	c := sampleConfig()
	s := &swarmOf{cfg: c, tally: tally{checked: true, peak: 100 << 20}}
	var r bench.Report
	report(&r, []*swarmOf{s}, all)
	if x := r.Samples(c.name(), "x-mpi"); !slices.Equal(x, []float64{.5, 1.25, .5}) {
		t.Errorf("beside OpenMPI %v", x)
	}
	if x := r.Samples(c.name(), "cpu-sec/GB"); !slices.Equal(x, []float64{2, 10, 4}) {
		t.Errorf("CPU %v", x)
	}
	if x := r.Samples(c.name(), "verified"); !slices.Equal(x, []float64{1}) {
		t.Errorf("verified %v", x)
	}
	s.cfg.Roots = false
	var two bench.Report
	report(&two, []*swarmOf{{cfg: c}, s}, all)
	if x := two.Samples(s.cfg.name(), "x-first"); !slices.Equal(x, []float64{2, .8, 2}) {
		t.Errorf("beside the first case %v", x)
	}
	if _, err := alternate(t.Context(), []contender{a}, 1); err == nil {
		t.Error("a failed round is no error")
	}
}

func TestOrdersAreAnswered(t *testing.T) {
	var answers strings.Builder
	if err := Serve(t.Context(), strings.NewReader("{\"op\":\"dance\"}\n{\"op\":\"end\"}\n"), &answers); err != nil {
		t.Error(err)
	}
	for _, want := range []string{`order \"dance\" is not known`, "there was no round"} {
		if !strings.Contains(answers.String(), want) {
			t.Errorf("the answers do not say %q: %s", want, &answers)
		}
	}
	if err := Serve(t.Context(), strings.NewReader("{\n"), &strings.Builder{}); err == nil {
		t.Error("half a document is an order")
	}
}

// The ideal of 32 MiB among four over 200 Mbit/s: 48 MiB a peer, and 52 bytes of headers a packet
// of 1500.
func TestIdeal(t *testing.T) {
	c := sampleConfig()
	c.Elements, c.Namespaces = 8<<20, true
	if c.ideal() != 0 {
		t.Error("without a rate there is an ideal")
	}
	c.Rate = 200e6
	if got := c.ideal(); got < 2.0855 || got > 2.0856 || c.name() != "AllReduce/peers=4/size=32MiB/rate=200mbit" {
		t.Errorf("%s: %v s", c.name(), got)
	}
}

// TestGoalCases: each case that is measured for goals is one that the commands allow.
func TestGoalCases(t *testing.T) {
	for _, cases := range goalCases(sampleConfig()) {
		for _, c := range cases {
			if err := c.Validate(); err != nil {
				t.Errorf("%s: %v", c.name(), err)
			}
		}
	}
}
