// Package api is a peer's status over HTTP, for programs on the same machine: JSON at GET /status,
// the newest events at GET /events, metrics at GET /metrics, and the commands POST /recover,
// /change, /invite and /probe. ServeMetrics serves only the metrics, also to other
// machines.
//
// The status names peers and addresses, so it is served on loopback addresses and Unix sockets
// only. A request to a loopback address must bear a token (Keys). A web page that makes a browser
// ask a loopback address under a name of its own (DNS rebinding) is refused by the Host header.
package api
