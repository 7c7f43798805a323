package statesync

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/checkpoint"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// ServerConfig bounds what a server gives. The zero value means the defaults.
type ServerConfig struct {
	// Streams is how many streams are served at once. Each takes up to three chunks or frames of
	// memory. Default: 32.
	Streams int
	PerPeer int // how many of these streams one peer gets; default: 4
	// BytesPerSecond bounds what all streams together send of states, and of outcomes to peers that
	// are not preferred. 0 means no limit.
	BytesPerSecond int64
	// Busy, if set, tells that the uplink has something better to carry. Bytes then leave at an
	// eighth of BytesPerSecond. It must not block.
	Busy   func() bool
	Logger *slog.Logger // nil: silent
	// Prefer, if set, tells which peers may take all the streams: the members. All other peers
	// together get half of them, so that they cannot keep a member from what it missed. It must not
	// block.
	Prefer func(slot.PeerID) bool
	// Loose, if set, gives segments that are in memory and not in the store, and nil for others.
	// Their bytes must hash to the root.
	Loose func(root slot.Root) *Loan
	Quota Quota // of newcomers
}

func (c ServerConfig) withDefaults() ServerConfig {
	c.Streams = orDefault(c.Streams, 32)
	c.PerPeer = orDefault(c.PerPeer, 4)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// blockTime is for a request to come or a block to leave.
const blockTime = 30 * time.Second

// Server answers requests from a store.
type Server struct {
	store     *checkpoint.Store
	cfg       ServerConfig
	zip       *zip
	pace      pacer
	quota     *quotas
	admission *admission

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
}

// NewServer makes a server. The caller closes it.
func NewServer(store *checkpoint.Store, cfg ServerConfig) *Server {
	cfg = cfg.withDefaults()
	s := &Server{
		store: store, cfg: cfg, zip: newZip(), pace: newPacer(cfg.BytesPerSecond),
		quota:     newQuotas(cfg.Quota, store.Shape().Size()),
		admission: newAdmission(cfg.Streams, cfg.PerPeer),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// session is one stream that is served.
type session struct {
	*seat
	st       wire.Stream
	paced    bool   // the answer to the last request
	raw, out []byte // memory for blocks
}

// Serve answers the requests on one stream until it ends. It owns the stream. It blocks: call it
// from the stream's goroutine.
func (s *Server) Serve(from slot.PeerID, st wire.Stream) {
	c := &session{st: st, seat: &seat{
		from: from, preferred: s.cfg.Prefer == nil || s.cfg.Prefer(from),
		interrupt: func() { _ = st.SetReadDeadline(time.Now()) },
	}}
	if !s.admission.enter(c.seat) {
		_ = st.Reset()
		return
	}
	defer s.admission.leave(c.seat)
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
		s.admission.setIdle(c.seat, true)
		q, err := s.readRequest(c.st)
		s.admission.setIdle(c.seat, false)
		if err != nil {
			return err
		}
		// A member that lacks an outcome may be what a slot waits for, so its bytes are not paced.
		c.paced = q.Type == askChunk || s.cfg.Prefer == nil || !c.preferred
		switch {
		case !c.admitted:
			return s.refuse(c, statusBusy)
		case !s.quota.charge(c.from, s.cost(q)):
			s.cfg.Logger.Debug("a newcomer has had its share", "peer", c.from)
			return s.refuse(c, statusSpent)
		}
		if err := s.answer(c, q); err != nil {
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
	if err := st.SetReadDeadline(time.Now().Add(blockTime)); err != nil {
		return request{}, err
	}
	if _, err := io.ReadFull(st, b[:]); err != nil {
		return request{}, err
	}
	return parseRequest(b[:])
}

func (s *Server) answer(c *session, q request) error {
	switch q.Type {
	case askList:
		return s.sendBlock(c, appendList(c.raw[:0], s.store.List()))
	case askChunk:
		return s.sendChunk(c, q)
	case askFrames, askFramesOnly:
		return s.sendFrames(c, q)
	}
	panic("statesync: a request type that the parser lets pass has no answer")
}

func (s *Server) sendChunk(c *session, q request) (err error) {
	size := s.store.Shape().Size()
	if q.Offset > uint64(size) { // it may not even fit an int64
		return errors.New("chunk behind the end")
	}
	c.raw, err = s.store.AppendSlice(c.raw[:0], q.Root, int64(q.Offset), int64(q.Length))
	if err != nil {
		return s.failed(c, err)
	}
	return s.sendBlock(c, c.raw)
}

func (s *Server) sendFrames(c *session, q request) error {
	r, err := s.segment(q.Root)
	if err != nil {
		return s.failed(c, err)
	}
	defer r.Close()
	frameBytes := s.store.FrameBytes()
	n := uint64(frameCount(r.Size(), frameBytes))
	if q.Offset > n || q.Length > n-q.Offset ||
		q.Length*uint64(frameBytes) > max(maxFrameBytes, uint64(frameBytes)) {
		return errors.New("frames behind the end, or too many")
	}
	hashes, err := r.Hashes()
	if err != nil {
		return s.failed(c, err)
	}
	if q.Type == askFrames {
		if err := s.sendBlock(c, appendHashes(c.raw[:0], r.Size(), frameBytes, hashes)); err != nil {
			return err
		}
	}
	for k := q.Offset; k < q.Offset+q.Length; k++ {
		if c.raw, err = r.Frame(c.raw[:0], int64(k), hashes); err != nil {
			return s.failed(c, err)
		}
		if err := s.sendBlock(c, c.raw); err != nil {
			return err
		}
	}
	return nil
}

// segmentReader is a segment to serve, frame by frame.
type segmentReader interface {
	Size() int64
	Hashes() ([]slot.Root, error)
	Frame(dst []byte, k int64, hashes []slot.Root) ([]byte, error)
	Close() error
}

// segment finds a segment in the store, or among those that are only in memory.
func (s *Server) segment(root slot.Root) (segmentReader, error) {
	r, err := s.store.Segment(root)
	if err == nil {
		return r, nil
	}
	if s.cfg.Loose != nil {
		if l := s.cfg.Loose(root); l != nil {
			return l, nil
		}
	}
	return nil, err
}

// failed answers that something is not held, or no longer because it was found corrupt. Any other
// fault ends the stream.
func (s *Server) failed(c *session, err error) error {
	var corrupt *checkpoint.CorruptError
	if !errors.Is(err, checkpoint.ErrNotHeld) && !errors.As(err, &corrupt) {
		s.cfg.Logger.Warn("cannot serve a piece", "error", err)
		return err
	}
	return s.refuse(c, statusNotHeld)
}

// refuse answers with a status alone.
func (s *Server) refuse(c *session, why status) error {
	c.paced = false
	return s.send(c, head{Status: why}.append(nil))
}

func (s *Server) sendBlock(c *session, b []byte) error {
	c.out = s.zip.appendBlock(c.out[:0], b)
	return s.send(c, c.out)
}

// busyToll is how many times longer a byte takes while the uplink has something better to carry.
const busyToll = 8

// send sends in slices, each when its time has come. So all streams move on at once, and none looks
// stalled to its reader.
func (s *Server) send(c *session, b []byte) error {
	for len(b) > 0 {
		n := min(len(b), s.pace.slice)
		if c.paced {
			toll := 1
			if s.cfg.Busy != nil && s.cfg.Busy() {
				toll = busyToll
			}
			if err := s.pace.wait(s.ctx, n, toll); err != nil {
				return err
			}
		}
		if err := c.st.SetWriteDeadline(time.Now().Add(blockTime)); err != nil {
			return err
		}
		if _, err := c.st.Write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// Close ends all streams and waits for them.
func (s *Server) Close() error {
	if !s.admission.close() {
		return net.ErrClosed
	}
	s.cancel()
	s.admission.wg.Wait()
	s.zip.close()
	return nil
}
