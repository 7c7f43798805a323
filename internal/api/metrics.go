package api

import (
	"fmt"
	"net/http"

	"golang.org/x/net/netutil"
)

// maxConns is how many connections other machines can hold at a time.
const maxConns = 64

// ServeMetrics serves metrics at GET /metrics on addr, which other machines may reach, and nothing
// else.
func ServeMetrics(addr Address, keys Keys, metrics http.Handler) (*Server, error) {
	l, err := listen(addr)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w: choose another address with --metrics, like 127.0.0.1:0 for any free port",
			err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", keys.guardMetrics(addr, metrics))
	return start(addr, netutil.LimitListener(l, maxConns), underOwnName(addr, mux)), nil
}
