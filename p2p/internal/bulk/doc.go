// Package bulk carries much data between two peers on TCP connections of its own: TLS without a
// muxer, on the port that libp2p listens on too. They prove the same peer IDs as libp2p's
// connections, and end with those to the same peer. The swarm does not know of them.
//
//	Open -> idle connection, or a new one: dial, TLS, READY -> OPEN protocol -> Stream: DATA…, END
//	Inlet -> TLS, admission, READY -> OPEN -> the handler that Env.Admit returns -> Stream
//
// A connection carries one stream at a time. When both sides have ended it, the connection waits
// for the next stream. Streams keep to the turns of the upload and download rates.
//
// The caller makes Conns on the Inlet of its transport; all of it ends with the task group. Where
// no connection comes about, Open fails soon and the caller takes a stream of libp2p's.
//
// Transport is the TCP transport of our hosts. It is libp2p's, and
//
//   - its port takes bulk connections as well, which come out of an Inlet (demux.go);
//   - holes are punched from the port that is listened on (Ports);
//   - TLS records leave and arrive many at a time (RecordConn, LargeTLS).
//
// Nothing on the wire differs from libp2p's TCP transport.
package bulk
