package attach

import (
	"errors"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/p2pdiloco/p2pdiloco/bridge/attach/wire"
)

// sendTime bounds how long a rank that does not read may hold up the others. All messages to ranks
// are small against a socket's buffer.
const sendTime = time.Second

// conn is a connection to one rank.
type conn struct {
	number Conn
	socket *net.UnixConn
}

// read posts what a rank sends to the loop, until the connection ends.
func (c *conn) read(l *loop) {
	for {
		h, m, err := wire.Read(c.socket)
		switch {
		case errors.Is(err, wire.ErrMalformed):
			l.do(func() todo { return l.box.Garbled(c.number, err.Error()) })
			return
		case err != nil:
			l.do(func() todo { return l.gone(c, err) })
			return
		case m != nil:
			l.do(func() todo { return l.box.Receive(time.Now(), c.number, h.ID, m) })
		}
	}
}

// why says how a connection ended.
func why(err error) string {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "its process has ended or closed the socket"
	}
	return err.Error()
}

// send writes a message, and descriptors with its first byte.
func (c *conn) send(id uint64, m wire.Message, files []*os.File) error {
	b := wire.Append(nil, id, m)
	if err := c.socket.SetWriteDeadline(time.Now().Add(sendTime)); err != nil {
		return err
	}
	if len(files) > 0 {
		if err := sendFiles(c.socket, b[:1], files); err != nil {
			return err
		}
		b = b[1:]
	}
	_, err := c.socket.Write(b)
	return err
}

// sendFiles sends descriptors with some bytes.
func sendFiles(c *net.UnixConn, b []byte, files []*os.File) error {
	var fds []int
	for _, f := range files {
		fds = append(fds, int(f.Fd()))
	}
	_, _, err := c.WriteMsgUnix(b, unix.UnixRights(fds...), nil)
	return err
}
