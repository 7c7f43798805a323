// Package addr answers questions about network addresses: over which transport one leads, through
// which relay, and which network or subscriber it belongs to. It has no state.
package addr
