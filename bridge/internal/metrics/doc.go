// Package metrics writes a peer's status in the text format of Prometheus.
//
//	api.Serve(addr, status, commands, metrics.Handler(peer.Status))
//
// Every scrape reads the status; nothing is counted here. There are few labels: the only ones with
// many values name the run's members, and their number is bounded.
package metrics
