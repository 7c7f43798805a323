package api

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/net/netutil"
)

const (
	// MetricPrefix begins the names of all metrics but those of the process.
	MetricPrefix = "p2pdiloco_"
	maxScrapes   = 4 // answered at a time
)

// figures calls tell with each figure that is known. Which ones there are may change.
type figures func(tell func(name, help string, value float64, labels map[string]string))

// MetricsHandler serves figures, and those of the process, to Prometheus.
func MetricsHandler(f figures) http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(f, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes})
}

// Describe says nothing: a collector that does not know what will come may do so.
func (figures) Describe(chan<- *prometheus.Desc) {}

// Collect makes metrics of the figures.
func (f figures) Collect(out chan<- prometheus.Metric) {
	f(func(name, help string, value float64, labels map[string]string) {
		kind, desc := prometheus.GaugeValue, prometheus.NewDesc(MetricPrefix+name, help, nil, labels)
		if strings.HasSuffix(name, "_total") {
			kind = prometheus.CounterValue
		}
		out <- prometheus.MustNewConstMetric(desc, kind, value)
	})
}

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
	return ServeOn(netutil.LimitListener(l, maxConns), underOwnName(addr, mux)), nil
}
