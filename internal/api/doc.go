// Package api is a peer's status over HTTP, for programs on the same machine: JSON at GET /status, metrics at GET /metrics, and the orders
// POST /recover and POST /invite. ServeMetrics serves the metrics alone, to other machines, too.
//
// The status names peers and addresses, so it is served on loopback addresses and Unix sockets only; orders need a token, too
// (orders.go). A web page that makes a browser ask a loopback address under a name of its own (DNS rebinding)
// is refused by the Host header.
package api
