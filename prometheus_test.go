package p2pdiloco

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/p2pdiloco/p2pdiloco/internal/api"
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// scrape asks for metrics as Prometheus does, and reads them with its parser.
func scrape(t *testing.T, status func() (Status, bool)) map[string]*dto.MetricFamily {
	t.Helper()
	w := httptest.NewRecorder()
	MetricsHandler(status).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	return families
}

func full() Status {
	v := 0.5
	return Status{
		Peer: "self", Run: "books\xff", RunID: Root{1}, Phase: PhasePaused, Slot: 7,
		Training: 90 * time.Second, Sent: 1500,
		Agreement: &AgreementStatus{Electors: 4, Quorum: 3, Liars: 1},
		Members: []MemberStatus{
			{
				Peer: "self", State: "training", Slot: 7, Steps: 3,
				Says: &Claims{
					Name: "lab-1", Version: "1", Loss: &v, TokensPerSecond: &v, StalledShare: &v,
					HeldOut: &v, UpBytesPerSecond: &v, DownBytesPerSecond: &v, MemoryBytes: &v,
				},
			},
			{
				Peer: "gone", State: "missing", Heard: time.Minute, StandsOut: make([]Finding, 2),
				Figures: &FiguresStatus{Ratio: &v, Cosine: &v, Trimmed: .25, Clip: 1},
			},
			{Peer: "late", State: "late"},
		},
		Stats: StatsStatus{
			Slot: 7, Contributors: 2, Staleness: 0.5, Norm: 3, OwnNorm: &v, Cosine: &v,
			PairCosine: &v, Loss: &v, LossSlot: 6, TrainLoss: &v,
		},
		Traffic: p2p.Traffic{Exchange: p2p.Bytes{Sent: 1200, Received: 5}, Control: p2p.Bytes{Sent: 300}},
	}
}

// All metrics are there, with the values of the status.
func TestScrape(t *testing.T) {
	s := full()
	families := scrape(t, func() (Status, bool) { return s, true })
	for name, want := range map[string]float64{
		"p2pdiloco_slot": 7, "p2pdiloco_training_seconds_total": 90, "p2pdiloco_sent_bytes_total": 1500,
		"p2pdiloco_slot_contributors":   2,
		"p2pdiloco_slot_staleness_mean": 0.5, "p2pdiloco_gradient_norm": 3, "p2pdiloco_own_gradient_norm": 0.5,
		"p2pdiloco_electors": 4, "p2pdiloco_quorum": 3, "p2pdiloco_tolerated_liars": 1,
		"p2pdiloco_loss_slot": 6, "p2pdiloco_info": 1,
	} {
		f := families[name]
		if f == nil || len(f.Metric) != 1 || value(f.Metric[0]) != want {
			t.Errorf("%s: %v, want %v", name, f, want)
		}
	}
	for _, m := range families["p2pdiloco_phase"].Metric {
		if on := m.Label[0].GetValue() == "paused"; (value(m) == 1) != on {
			t.Errorf("phase %v", m)
		}
	}
	heard := families["p2pdiloco_member_heard_seconds"].Metric
	if len(heard) != 3 || value(heard[0])+value(heard[1])+value(heard[2]) != 60 {
		t.Errorf("heard: %v", heard)
	}
	sent := map[string]float64{}
	for _, m := range families["p2pdiloco_traffic_bytes_total"].Metric {
		sent[m.Label[1].GetValue()+" "+m.Label[0].GetValue()] = value(m)
	}
	if len(sent) != 8 || sent["exchange sent"] != 1200 || sent["exchange received"] != 5 ||
		sent["control sent"] != 300 {
		t.Errorf("traffic: %v", sent)
	}
	cosine, trimmed := families["p2pdiloco_member_cosine"].Metric, families["p2pdiloco_member_trimmed"].Metric
	if len(cosine) != 1 || value(cosine[0]) != .5 || len(trimmed) != 1 || value(trimmed[0]) != .25 {
		t.Errorf("figures of one member: %v, %v", cosine, trimmed)
	}
	named := families["p2pdiloco_member_info"].Metric
	if len(named) != 1 || named[0].Label[0].GetValue() != "lab-1" {
		t.Errorf("names: %v", named)
	}
	out := families["p2pdiloco_member_stands_out"].Metric
	if len(out) != 3 || value(out[0])+value(out[1])+value(out[2]) != 2 {
		t.Errorf("findings: %v", out)
	}
	if families["go_goroutines"] == nil {
		t.Error("the runtime says nothing")
	}
	for _, row := range rows(table()) {
		if families[row] == nil {
			t.Errorf("%s is in the table, and missing", row)
		}
		delete(families, row)
	}
	for name := range families {
		if strings.HasPrefix(name, "p2pdiloco") {
			t.Errorf("%s is not in the table", name)
		}
	}
}

func value(m *dto.Metric) float64 { return m.GetGauge().GetValue() + m.GetCounter().GetValue() }

// rows are the names in a table.
func rows(text string) (names []string) {
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)").FindAllStringSubmatch(text, -1) {
		names = append(names, m[1])
	}
	return names
}

// What is not known is not told: no zeros that look like measurements.
func TestUnknown(t *testing.T) {
	families := scrape(t, func() (Status, bool) {
		return Status{Run: "books", Phase: PhaseSearching}, true
	})
	for _, name := range []string{
		"p2pdiloco_slot", "p2pdiloco_gradient_norm", "p2pdiloco_own_gradient_cosine",
		"p2pdiloco_loss", "p2pdiloco_loss_slot", "p2pdiloco_member_slot",
	} {
		if families[name] != nil {
			t.Errorf("%s is told of a peer that searches", name)
		}
	}
	if families["p2pdiloco_sent_bytes_total"] == nil || families["p2pdiloco_info"] == nil {
		t.Error("what is known is missing")
	}
	families = scrape(t, func() (Status, bool) { return Status{}, false })
	if families["p2pdiloco_info"] != nil || families["go_goroutines"] == nil {
		t.Error("before the peer has an identity only the process is told of")
	}
}

// Names and help are as Prometheus wants them: by the linter of promtool.
func TestNames(t *testing.T) {
	w := httptest.NewRecorder()
	MetricsHandler(func() (Status, bool) { return full(), true }).
		ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	problems, err := promlint.New(w.Body).Lint()
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, api.MetricPrefix) {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
	if err != nil {
		t.Error(err)
	}
	for _, f := range full().Figures() {
		if strings.Contains(f.Help, "|") {
			t.Errorf("%s: help %q breaks the table", f.Name, f.Help)
		}
	}
}

const (
	docs  = "docs/reference/metrics.md"
	begin = "<!-- metrics: go test . -run TestDocs -update -->\n"
	end   = "<!-- /metrics -->"
)

// table is all metrics as a table in Markdown.
func table() string {
	var b strings.Builder
	b.WriteString("| metric | type | what it is |\n| --- | --- | --- |\n")
	told := map[string]bool{}
	for _, f := range full().Figures() {
		if told[f.Name] {
			continue
		}
		told[f.Name] = true
		name, kind := api.MetricPrefix+f.Name, "gauge"
		if len(f.Labels) > 0 {
			name += "{" + strings.Join(slices.Sorted(maps.Keys(f.Labels)), ", ") + "}"
		}
		if strings.HasSuffix(f.Name, "_total") {
			kind = "counter"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", name, kind, f.Help)
	}
	return b.String()
}

// The table in the documentation is made from the definitions.
func TestDocs(t *testing.T) {
	b, err := os.ReadFile(docs)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begun := strings.Cut(string(b), begin)
	_, after, ended := strings.Cut(rest, end)
	if !begun || !ended {
		t.Fatalf("%s has no place for the table", docs)
	}
	want := before + begin + table() + end + after
	if *testutil.Update {
		if err := os.WriteFile(docs, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(b) {
		t.Errorf("the table of metrics in %s is not that of the code: go test . -run "+
			"TestDocs -update", docs)
	}
}
