//go:build unix

package attachtest

import (
	"errors"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/p2pdiloco/p2pdiloco/bridge/attach/wire"
)

func (r *Rank) next() uint64 {
	r.last++
	return r.last
}

func (r *Rank) send(id uint64, m wire.Message) error {
	_, err := r.socket.Write(wire.Append(nil, id, m))
	return err
}

// ask sends a message, and waits for its answer.
func (r *Rank) ask(m wire.Message) (answer wire.Message, files []int, err error) {
	id := r.next()
	if err := r.send(id, m); err != nil {
		return nil, nil, r.lastWord(err)
	}
	for {
		answer, got, files, err := r.receive()
		if err != nil || got == id {
			return answer, files, err
		}
		if n, ok := answer.(*wire.Notice); ok {
			r.Notices = append(r.Notices, *n)
		}
	}
}

// lastWord is the node's last word, if a send has failed.
func (r *Rank) lastWord(err error) error {
	if err == nil {
		return nil
	}
	for {
		if _, _, _, last := r.receive(); last != nil {
			return errors.Join(last, err)
		}
	}
}

// receive reads one message, and the descriptors that come with its first byte.
func (r *Rank) receive() (wire.Message, uint64, []int, error) {
	s := &stream{socket: r.socket}
	h, m, err := wire.Read(s)
	if err != nil {
		return nil, 0, s.files, err
	}
	if e, ok := m.(*wire.Error); ok {
		return nil, 0, s.files, &Ended{e.Code, e.Text}
	}
	return m, h.ID, s.files, nil
}

// stream reads from a socket, and keeps descriptors.
type stream struct {
	socket *net.UnixConn
	files  []int
}

func (s *stream) Read(b []byte) (int, error) {
	oob := make([]byte, unix.CmsgSpace(2*4))
	n, oobn, _, _, err := s.socket.ReadMsgUnix(b, oob)
	if err == nil && n == 0 && len(b) > 0 {
		return 0, os.ErrClosed
	}
	messages, perr := unix.ParseSocketControlMessage(oob[:oobn])
	for _, m := range messages {
		fds, uerr := unix.ParseUnixRights(&m)
		perr = errors.Join(perr, uerr)
		s.files = append(s.files, fds...)
	}
	return n, errors.Join(err, perr)
}
