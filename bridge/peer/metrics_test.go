package peer

import (
	"net/http"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/p2pdiloco/p2pdiloco"
)

// scrape reads the metrics at an address.
func scrape(t *testing.T, addr string) map[string]*dto.MetricFamily {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d, %v", addr, res.StatusCode, err)
	}
	return families
}

// TestMetrics scrapes a peer that trains, at both of its addresses.
func TestMetrics(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	started := make(chan p2pdiloco.Event, 1)
	p := open(
		t,
		read(t, oneRound+`, "linger": "1s", "metrics": "127.0.0.1:0", "api": "127.0.0.1:0"`),
		Options{Trainer: (&stepper{trains: func() {}}).trainer, OnEvent: func(e p2pdiloco.Event) {
			if e.Name == "peer.started" {
				started <- e
			}
		}},
	)
	own := (<-started).Fields["metrics"].(string)
	node, err := p.Node(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, addr := range []string{own, p.api.Addr().String()} {
		families := scrape(t, addr)
		for name, want := range map[string]float64{
			"p2pdiloco_slot": 1, "p2pdiloco_members": 1, "p2pdiloco_slot_contributors": 1, "p2pdiloco_slot_weight": 50,
			"p2pdiloco_gradient_norm":     3,
			"p2pdiloco_own_gradient_norm": 3, "p2pdiloco_own_gradient_cosine": 1, "p2pdiloco_tokens_total": 50,
			"p2pdiloco_contributions_total": 1,
		} {
			f := families[name]
			if f == nil || len(f.Metric) != 1 ||
				f.Metric[0].GetGauge().GetValue()+f.Metric[0].GetCounter().GetValue() != want {
				t.Errorf("%s: %s is %v, want %v", addr, name, f, want)
			}
		}
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if res, err := http.Get("http://" + own + "/metrics"); err == nil { //nolint:noctx // it fails at once
		_ = res.Body.Close()
		t.Error("a closed peer still answers")
	}
}
