// Package hops carries streams between two members that cannot connect, through a third member that
// is connected to both.
//
//	origin  --- leg 1: names the target --->  forwarder  --- leg 2: names the origin --->  target
//	        <------------- TLS between origin and target, inside both legs ------------->
//
// The forwarder copies bytes. Inside them is a TLS connection between the origin and the target,
// with the certificates that libp2p's own connections have: each end proves the key of its peer ID.
// So the forwarder can impersonate nobody, read nothing and change nothing unseen; it sees how much
// is sent, and can drop it. The first message inside names the protocol of the stream. A signed
// header would have cost no round trip, but left all that follows it to the forwarder. Handshakes
// are done ahead instead: a pair that uses forwarded streams has some ready.
//
// Only members of the run are served, on every leg, and only with protocols of much data. A stream
// that was forwarded is never forwarded again: leg 2 ends at the peer that it reaches.
package hops
