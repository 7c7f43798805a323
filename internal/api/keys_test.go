package api

import (
	"io"
	"net/http"
	"path/filepath"
	"testing"
)

// Over TCP the status and the metrics need a token, unless the metrics are open; a socket's
// permissions are enough.
func TestWhoMayRead(t *testing.T) {
	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "up 1\n") })
	for _, c := range []struct {
		addr            string
		open            bool
		bears           string
		status, metrics int
	}{
		{"127.0.0.1:0", false, "", 401, 401},
		{"127.0.0.1:0", false, testKeys.Metrics, 401, 200},
		{"127.0.0.1:0", false, testKeys.Token, 200, 200},
		{"127.0.0.1:0", true, "", 401, 200},
		{"127.0.0.1:0", false, "x", 401, 401},
		{Socket(filepath.Join(t.TempDir(), "s")), false, "", 200, 200},
	} {
		keys := testKeys
		keys.OpenMetrics = func() bool { return c.open }
		s := serve(t, c.addr, keys, Content{Metrics: metrics})
		for path, want := range map[string]int{"/status": c.status, "/metrics": c.metrics} {
			if got := answerTo(t, s.Addr(), path, c.bears); got != want {
				t.Errorf("%+v: %s is answered with %d", c, path, got)
			}
		}
	}
}

// answerTo is the status code that a request gets.
func answerTo(t *testing.T, addr Address, path, token string) int {
	t.Helper()
	res, err := (Client{addr, token}).request(t.Context(), http.MethodGet, path)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode
}
