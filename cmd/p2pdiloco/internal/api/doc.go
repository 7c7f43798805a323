// Package api is a peer's status over HTTP, for programs on the same machine: JSON at /status, nothing else.
//
// The status names peers and addresses, and later versions may take orders here, so it is served on loopback addresses
// and Unix sockets only. A web page that makes a browser ask a loopback address under a name of its own (DNS rebinding)
// is refused by the Host header.
package api
