// Package metrics tells a peer's status in the text format of Prometheus.
//
//	api.Serve(addr, status, orders, metrics.Handler(peer.Status))
//
// Every scrape asks for the status anew; nothing is counted here. Labels are few: the only ones with many values name the run's members,
// which are bounded.
package metrics
