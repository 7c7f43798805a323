// Package limits bounds what one peer, one address and all peers together may take of a Network:
// bytes a second, memory for messages that are under way, places for connections, and libp2p's own
// resources.
//
// Bucket is not golang.org/x/time/rate: that one refuses to wait for more bytes than its burst, has
// no debt with a bound for bytes that do not wait, and gives a turn back only while nobody has
// reserved after it.
package limits
