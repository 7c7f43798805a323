package tcpnet

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/p2pdiloco/p2pdiloco/p2p/internal/liveness"
)

const tellsAcks = true

// acks asks the system about a socket.
func acks(fd int) liveness.Acks {
	i, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return liveness.Acks{}
	}
	return acksIn(i)
}

// acksIn reads the system's answer. Kernels before 4.1, and some that only look like Linux, do not
// count what was acknowledged: nothing waits there, or all that is busy would seem to wait for
// ever.
func acksIn(i *unix.TCPInfo) liveness.Acks {
	return liveness.Acks{
		Count: i.Bytes_acked, Waiting: i.Unacked > 0 && i.Bytes_acked > 0, Came: uint64(i.Segs_in),
		Trip: time.Duration(i.Rtt) * time.Microsecond,
	}
}
