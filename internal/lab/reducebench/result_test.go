package reducebench

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// scripted is a contender whose rounds take what a list says.
type scripted struct {
	name string
	log  *[]string
	next []float64
}

func (s *scripted) Round(_ context.Context, measured bool) (sample, error) {
	if measured {
		*s.log = append(*s.log, s.name)
	}
	if len(s.next) == 0 {
		return sample{}, errors.New("no more")
	}
	t := s.next[0]
	s.next = s.next[1:]
	return sample{seconds: t, cpu: 2 * t, sent: 1e9}, nil
}

func (s *scripted) Close() {}

// Contenders take turns, and the first two rounds don't count.
func TestAlternate(t *testing.T) {
	var log []string
	a, b := &scripted{"a", &log, []float64{9, 9, 1, 5, 2}}, &scripted{"b", &log, []float64{9, 9, 2, 4, 4}}
	all, err := alternate(t.Context(), []contender{a, b}, 3)
	if err != nil || strings.Join(log, "") != "ababab" {
		t.Fatal(log, err)
	}
	r := Result{Case: Default()}
	r.Samples, r.Seconds = times(all[0])
	r.compare("other", all[1])
	if r.Seconds != (Spread{2, 1, 5}) || r.Against.Ratio != 0.5 || cpuPerGB(all[0]) != 2*8.0/3 {
		t.Errorf("%+v %+v", r.Seconds, r.Against)
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

func TestGoalsTable(t *testing.T) {
	g := &goalRun{}
	g.atMost(1, 1.5, "", "slow %d", 4)
	g.atLeast(.8, .9, "enough")
	g.missing(1, "it needs root", "links")
	g.Results = []Result{{Bytes: 1 << 20, Peak: 100 << 20}, {Bytes: 64 << 20, Peak: 400 << 20}}
	g.memory()
	var b strings.Builder
	g.Print(&b)
	for _, want := range []string{"slow 4", "NO", "<= 1", ">= 0.8", "0.900", "it needs root", "1.170", "400 MiB of"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

// The ideal of 32 MiB among four over 200 Mbit/s: 48 MiB a peer, and 52 bytes of headers a packet
// of 1500.
func TestIdeal(t *testing.T) {
	r := Result{Case: Default(), Bytes: 32 << 20, Links: &Links{BitsPerSecond: 200e6, Kernel: true}}
	if got := r.ideal(); got < 2.0855 || got > 2.0856 {
		t.Errorf("%v s", got)
	}
	r.Seconds.Median = 2 * r.ideal()
	var b strings.Builder
	r.Print(&b)
	if text := b.String(); !strings.Contains(text, "the median is 2.000 of it") ||
		!strings.Contains(text, "200 Mbit/s of what it sends, by the kernel's token buckets") {
		t.Error(text)
	}
	for _, other := range []*Links{nil, {}} {
		if r.Links = other; r.ideal() != 0 {
			t.Errorf("%+v has an ideal", other)
		}
	}
}
