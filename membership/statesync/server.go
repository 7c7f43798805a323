package statesync

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/checkpoint"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// ServerConfig bounds what a server gives. The zero value means the defaults.
type ServerConfig struct {
	Streams        int           // served at once: 32. Each takes up to three chunks or frames of memory
	PerPeer        int           // of these, to one peer: 4
	BytesPerSecond int64         // of states, and of outcomes to peers not preferred, sent to all together; 0 means no limit
	Busy           func() bool   // if set and true, bytes leave at an eighth of that: the uplink has something better to carry. It must not block
	Timeout        time.Duration // for a request to come or a block to leave: 30 s
	Logger         *slog.Logger  // silent if nil
	// Prefer, if set, says who may take all the streams: the members. The others, whoever they are and however many, get half of
	// them, so that they cannot keep a member from what it missed. It must not block.
	Prefer func(slot.PeerID) bool
	// Loose, if set, gives segments that are in memory and not in the store, nil for others. Their bytes must hash to the root.
	Loose func(root slot.Root) []byte
	Quota Quota // of newcomers
}

func (c ServerConfig) withDefaults() ServerConfig {
	c.Streams = orDefault(c.Streams, 32)
	c.PerPeer = orDefault(c.PerPeer, 4)
	c.Timeout = orDefault(c.Timeout, 30*time.Second)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func orDefault[T int | time.Duration](v, d T) T {
	if v <= 0 {
		return d
	}
	return v
}

// Server answers requests from a store.
type Server struct {
	store *checkpoint.Store
	cfg   ServerConfig
	zip   *zip
	pace  pacer
	quota *quotas

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu struct {
		sync.Mutex
		closed  bool
		served  int                 // streams being served
		others  int                 // of these, to peers that are not preferred
		perPeer map[slot.PeerID]int // of these
		refused int                 // streams being told that the server is busy
		idle    map[*session]struct{}
	}
}

// NewServer makes a server. The caller closes it.
func NewServer(store *checkpoint.Store, cfg ServerConfig) *Server {
	s := &Server{store: store, cfg: cfg.withDefaults(), zip: newZip(), pace: pacer{rate: cfg.BytesPerSecond}, quota: newQuotas(cfg.Quota, store.Shape().Size())}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.mu.perPeer, s.mu.idle = map[slot.PeerID]int{}, map[*session]struct{}{}
	return s
}

// Serve answers the requests on one stream until it ends. It owns the stream. It blocks: call it from the stream's goroutine.
func (s *Server) Serve(from slot.PeerID, st wire.Stream) {
	c := &session{from: from, st: st, preferred: s.cfg.Prefer == nil || s.cfg.Prefer(from)}
	if !s.enter(c) {
		_ = st.Reset()
		return
	}
	defer s.wg.Done()
	defer s.leave(c)
	stop := context.AfterFunc(s.ctx, func() { _ = st.Reset() })
	defer stop()
	err := s.serve(c)
	if err != nil && !errors.Is(err, io.EOF) {
		s.cfg.Logger.Debug("a state stream ended", "peer", from, "error", err)
		_ = st.Reset()
		return
	}
	_ = st.Close()
}

func (s *Server) serve(c *session) error {
	for {
		q, err := s.await(c)
		if err != nil {
			return err
		}
		if !c.admitted {
			return s.send(c.st, head{Status: statusBusy}.append(nil), false)
		}
		if !s.quota.take(c.from, s.cost(q)) {
			s.cfg.Logger.Debug("a newcomer has had its share", "peer", c.from)
			return s.send(c.st, head{Status: statusSpent}.append(nil), false)
		}
		c.buf.paced = q.Type == askChunk || s.cfg.Prefer == nil || !c.preferred
		if err := s.answer(c.st, q, &c.buf); err != nil {
			return err
		}
	}
}

// cost is what a request counts in quotas, in bytes.
func (s *Server) cost(q request) float64 {
	switch q.Type {
	case askChunk:
		return float64(q.Length)
	case askFrames, askFramesOnly:
		return float64(q.Length) * float64(s.store.FrameBytes()) / outcomesToll
	case askList: // it is short
	}
	return 0
}

func (s *Server) readRequest(st wire.Stream) (request, error) {
	var b [requestSize]byte
	if err := st.SetReadDeadline(time.Now().Add(s.cfg.Timeout)); err != nil {
		return request{}, err
	}
	if _, err := io.ReadFull(st, b[:]); err != nil {
		return request{}, err
	}
	return parseRequest(b[:])
}

// scratch is the memory of one stream.
type scratch struct {
	raw, out []byte
	paced    bool // what is asked for; a member that lacks an outcome may be what a slot waits for
}

func (s *Server) answer(st wire.Stream, q request, buf *scratch) (err error) {
	switch q.Type {
	case askList:
		return s.sendBlock(st, appendList(buf.raw[:0], s.store.List()), buf)
	case askChunk:
		return s.sendChunk(st, q, buf)
	case askFrames, askFramesOnly:
		return s.sendFrames(st, q, buf)
	}
	panic("statesync: a request type that the parser lets pass has no answer")
}

func (s *Server) sendChunk(st wire.Stream, q request, buf *scratch) (err error) {
	size := s.store.Shape().Size()
	if q.Offset > uint64(size) { // it may not even fit an int64
		return errors.New("chunk behind the end")
	}
	buf.raw, err = s.store.AppendSlice(buf.raw[:0], q.Root, int64(q.Offset), int64(q.Length))
	if err != nil {
		return s.refuse(st, err)
	}
	return s.sendBlock(st, buf.raw, buf)
}

func (s *Server) sendFrames(st wire.Stream, q request, buf *scratch) error {
	r, err := s.segment(q.Root)
	if err != nil {
		return s.refuse(st, err)
	}
	defer r.Close()
	n := uint64(r.Frames())
	if q.Offset > n || q.Length > n-q.Offset || q.Length*uint64(s.store.FrameBytes()) > max(maxFrameBytes, uint64(s.store.FrameBytes())) {
		return errors.New("frames behind the end, or too many")
	}
	hashes, err := r.Hashes()
	if err != nil {
		return s.refuse(st, err)
	}
	if q.Type == askFrames {
		if err := s.sendBlock(st, appendHashes(buf.raw[:0], r.Size(), s.store.FrameBytes(), hashes), buf); err != nil {
			return err
		}
	}
	for k := q.Offset; k < q.Offset+q.Length; k++ {
		if buf.raw, err = r.Frame(buf.raw[:0], int64(k), hashes); err != nil {
			return s.refuse(st, err)
		}
		if err := s.sendBlock(st, buf.raw, buf); err != nil {
			return err
		}
	}
	return nil
}

// refuse says that something is not held, or no longer, since it was found corrupt; any other fault ends the stream.
func (s *Server) refuse(st wire.Stream, err error) error {
	var corrupt *checkpoint.CorruptError
	if !errors.Is(err, checkpoint.ErrNotHeld) && !errors.As(err, &corrupt) {
		s.cfg.Logger.Warn("cannot serve a piece", "error", err)
		return err
	}
	return s.send(st, head{Status: statusNotHeld}.append(nil), false)
}

func (s *Server) sendBlock(st wire.Stream, b []byte, buf *scratch) error {
	buf.out = s.zip.appendBlock(buf.out[:0], b)
	return s.send(st, buf.out, buf.paced)
}

// busyToll is how many times longer a byte takes while the node is busy.
const busyToll = 8

// send sends in slices, each at its time: so all streams move on side by side, and none looks stalled to its reader.
func (s *Server) send(st wire.Stream, b []byte, paced bool) error {
	for len(b) > 0 {
		n := min(len(b), s.pace.slice())
		toll := n
		if s.cfg.Busy != nil && s.cfg.Busy() {
			toll *= busyToll
		}
		if paced {
			if err := s.pace.wait(s.ctx, toll); err != nil {
				return err
			}
		}
		if err := st.SetWriteDeadline(time.Now().Add(s.cfg.Timeout)); err != nil {
			return err
		}
		if _, err := st.Write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// Close ends all streams and waits for them.
func (s *Server) Close() error {
	s.mu.Lock()
	if s.mu.closed {
		s.mu.Unlock()
		return net.ErrClosed
	}
	s.mu.closed = true
	s.mu.Unlock()
	s.cancel()
	s.wg.Wait()
	s.zip.close()
	return nil
}
