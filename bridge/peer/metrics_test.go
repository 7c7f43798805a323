package peer

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"testing"

	"github.com/p2pdiloco/p2pdiloco"
)

// TestMetrics scrapes a peer that trains, at both of its addresses.
func TestMetrics(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	started := make(chan p2pdiloco.Event, 1)
	p := open(
		t,
		read(t, oneRound+`
linger = "1s"
metrics = "127.0.0.1:0"
api = "127.0.0.1:0"`),
		Options{Trainer: (&stepper{trains: func() {}}).trainer, OnEvent: func(e p2pdiloco.Event) {
			if e.Name == "peer.started" {
				started <- e
			}
		}},
	)
	own := (<-started).Fields["metrics"].(string)
	node, err := p.Node(t.Context())
	must(t, err)
	must(t, node.Run(t.Context()))
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for _, addr := range []string{own, p.api.Addr().String()} {
		res, err := client.Get("http://" + addr + "/metrics") //nolint:noctx // it is answered at once
		must(t, err)
		text, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		for name, want := range map[string]int{
			"slot": 1, "members": 1, "slot_weight": 50, "gradient_norm": 3, "own_gradient_cosine": 1,
			"contributions_total": 1,
		} {
			line := regexp.MustCompile(fmt.Sprintf(`(?m)^p2pdiloco_%s(\{.*\})? %d$`, name, want))
			if len(line.FindAll(text, -1)) != 1 {
				t.Errorf("%s: no %s of %d, %v: %s", addr, name, want, err, text)
			}
		}
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if res, err := client.Get("http://" + own + "/metrics"); err == nil { //nolint:noctx // it fails at once
		_ = res.Body.Close()
		t.Error("a closed peer still answers")
	}
}
