// Package tcpnet is the TCP transport of our hosts. It is libp2p's, and
//
//   - its port takes bulk connections as well, which come out of an Inlet (demux.go);
//   - holes are punched from the port that is listened on (Ports);
//   - TLS records leave and arrive many at a time (RecordConn, LargeTLS).
//
// Nothing on the wire differs from libp2p's TCP transport.
package tcpnet
