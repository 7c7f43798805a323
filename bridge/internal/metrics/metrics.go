package metrics

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// maxScrapes is how many scrapes are answered at a time.
const maxScrapes = 4

// Handler answers scrapes with what status returns, and with little while its second result is
// false. It is called from many goroutines. The metrics of the Go runtime and of the process are
// included.
func Handler(status func() (p2pdiloco.Status, bool)) http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(collector{status}, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes})
}

// collector makes metrics from a status.
type collector struct {
	status func() (p2pdiloco.Status, bool)
}

// Describe implements prometheus.Collector.
func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, m := range single {
		out <- m.desc()
	}
	for _, m := range ofMember {
		out <- m.desc("peer")
	}
	out <- traffic.desc(trafficLabels...)
	out <- info.desc(infoLabels...)
	out <- phase.desc("phase")
	out <- member.desc(memberLabels...)
}

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	s, ok := c.status()
	if !ok {
		return
	}
	for _, m := range single {
		if v, ok := m.value(s); ok {
			out <- prometheus.MustNewConstMetric(m.desc(), m.kind, v)
		}
	}
	out <- prometheus.MustNewConstMetric(info.desc(infoLabels...), info.kind, 1, text(s.Run), s.RunID.String(),
		s.Peer.String())
	for _, p := range phases {
		out <- prometheus.MustNewConstMetric(phase.desc("phase"), phase.kind, oneIf(s.Phase == p), string(p))
	}
	collectTraffic(out, s.Traffic)
	collectMembers(out, s.Members)
}

func collectTraffic(out chan<- prometheus.Metric, t p2p.Traffic) {
	for purpose, b := range map[string]p2p.Bytes{
		"control": t.Control, "gossip": t.Gossip, "exchange": t.Exchange,
		"state": t.State,
	} {
		out <- prometheus.MustNewConstMetric(traffic.desc(trafficLabels...), traffic.kind, float64(b.Sent), purpose,
			"sent")
		out <- prometheus.MustNewConstMetric(traffic.desc(trafficLabels...), traffic.kind, float64(b.Received), purpose,
			"received")
	}
}

// collectMembers labels each member with the short form of its ID, or with the whole ID where two
// short forms are equal.
func collectMembers(out chan<- prometheus.Metric, members []p2pdiloco.MemberStatus) {
	seen := make(map[string]int, len(members))
	for _, m := range members {
		seen[m.Peer.Short()]++
	}
	for _, m := range members {
		name := m.Peer.Short()
		if seen[name] > 1 {
			name = m.Peer.String()
		}
		for _, d := range ofMember {
			out <- prometheus.MustNewConstMetric(d.desc("peer"), d.kind, d.value(m), name)
		}
		out <- prometheus.MustNewConstMetric(member.desc(memberLabels...), member.kind, 1, name, m.State)
	}
}

// text is a label's value, which must be UTF-8, as a run's name is.
func text(s string) string { return strings.ToValidUTF8(s, "?") }

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// Table is all metrics as a table in Markdown, in the order of the definitions.
func Table() string {
	var b strings.Builder
	b.WriteString("| metric | type | what it is |\n| --- | --- | --- |\n")
	row := func(d definition, labels ...string) {
		name := d.name
		if len(labels) > 0 {
			name += "{" + strings.Join(labels, ", ") + "}"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", name, typeName(d.kind), d.help)
	}
	row(info, infoLabels...)
	row(phase, "phase")
	row(traffic, trafficLabels...)
	for _, m := range single {
		row(m.definition)
	}
	row(member, memberLabels...)
	for _, m := range ofMember {
		row(m.definition, "peer")
	}
	return b.String()
}

func typeName(k prometheus.ValueType) string {
	if k == prometheus.CounterValue {
		return "counter"
	}
	return "gauge"
}
