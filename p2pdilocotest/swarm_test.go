package p2pdilocotest

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
)

func init() { testutil.OneCPU() }

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// train is a user's own loop until the run ends: node i subtracts i in each round.
func train(ctx context.Context, node *p2pdiloco.Node, i int) error {
	params := make([]float32, node.Spec().Layout.Elements())
	_, err := node.Anchor(ctx, params)
	for err == nil {
		for k := range params {
			params[k] -= float32(i)
		}
		err = node.Sync(ctx, params, 1)
	}
	return err
}

// The nodes of a swarm make up a run, in memory, in time that passes or is virtual.
func TestSwarm(t *testing.T) {
	swarm := func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		nodes := Swarm(t, 3, func(_ int, cfg *p2pdiloco.Config) { cfg.Spec.Outer = "sgd" })
		if err := nodes[1].Wait(ctx, p2pdiloco.PhaseRunning); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error)
		for i, node := range nodes {
			go func() { ended <- train(ctx, node, i) }()
		}
		for range nodes {
			if err := <-ended; !errors.Is(err, p2pdiloco.ErrRunEnded) {
				t.Error(err)
			}
		}
		for _, node := range nodes {
			if err := node.Wait(ctx, p2pdiloco.PhaseEnded); err != nil {
				t.Error(err)
			}
			if s := node.Status(); s.Slot != 3 || s.StateRoot != nodes[0].Status().StateRoot {
				t.Errorf("slot %d, %v", s.Slot, s.StateRoot)
			}
		}
		if err := nodes[2].Wait(ctx, p2pdiloco.PhaseRunning); !errors.Is(err, p2pdiloco.ErrRunEnded) {
			t.Errorf("the run has ended: %v", err)
		}
		if err := nodes[2].Close(); err != nil {
			t.Error(err)
		}
		if err := nodes[2].Wait(ctx, p2pdiloco.PhaseClosed); err != nil {
			t.Error(err)
		}
		if err := nodes[2].Wait(ctx, p2pdiloco.PhaseRunning); !errors.Is(err, p2pdiloco.ErrClosed) {
			t.Errorf("the node is closed: %v", err)
		}
	}
	t.Run("now", swarm)
	t.Run("virtual", func(t *testing.T) { synctest.Test(t, swarm) })
}

// A program serves a node's API and metrics where it likes.
func TestHandlers(t *testing.T) {
	node := Swarm(t, 1)[0]
	ask := func(h http.Handler, method, path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, nil))
		return w
	}
	var s p2pdiloco.Status
	answer := ask(node.APIHandler(), http.MethodGet, "/status")
	if err := json.Unmarshal(answer.Body.Bytes(), &s); err != nil || s.Peer != node.Self() {
		t.Errorf("%v, %d", err, answer.Code)
	}
	for _, c := range []struct {
		method, path string
		code         int
		part         string
	}{
		{http.MethodPost, "/recover", http.StatusConflict, "the members can decide"},
		{http.MethodPost, "/change?action=remove&peer=q", http.StatusConflict, "peer ID"},
		{http.MethodPost, "/change?action=rotate", http.StatusConflict, "the run is open"},
		{http.MethodPost, "/ask?prompt=x", http.StatusConflict, "no trainer"},
		{http.MethodPost, "/probe", http.StatusOK, "[]"},
		{http.MethodGet, "/metrics", http.StatusOK, "p2pdiloco_uptime_seconds"},
		{http.MethodPost, "/status", http.StatusMethodNotAllowed, ""},
	} {
		answer := ask(node.APIHandler(), c.method, c.path)
		if answer.Code != c.code || !strings.Contains(answer.Body.String(), c.part) {
			t.Errorf("%s %s: %d %s", c.method, c.path, answer.Code, answer.Body)
		}
	}
	if m := ask(node.MetricsHandler(), http.MethodGet, "/"); !strings.Contains(m.Body.String(), node.Self().String()) {
		t.Errorf("%d", m.Code)
	}
}
