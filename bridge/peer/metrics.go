package peer

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/p2pdiloco/p2pdiloco"
)

const (
	prefix     = "p2pdiloco_" // of all names
	maxScrapes = 4            // answered at a time
)

// metricsHandler answers scrapes with what status returns, and with little while its second result
// is false. It is called from many goroutines. The metrics of the Go runtime and of the process are
// included.
func metricsHandler(status func() (p2pdiloco.Status, bool)) http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(collector{status}, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes})
}

// collector makes metrics from a status.
type collector struct {
	status func() (p2pdiloco.Status, bool)
}

func (d definition) desc() *prometheus.Desc {
	return prometheus.NewDesc(prefix+d.name, d.help, d.labels, nil)
}

// Describe implements prometheus.Collector.
func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range definitions {
		out <- d.desc()
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	s, ok := c.status()
	if !ok {
		return
	}
	for _, d := range definitions {
		desc := d.desc()
		d.tell(s, func(value float64, labels ...string) {
			out <- prometheus.MustNewConstMetric(desc, d.kind(), value, labels...)
		})
	}
}
