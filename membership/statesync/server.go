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
	BytesPerSecond int64         // sent to all together; 0 means no limit
	Timeout        time.Duration // for a request to come or a block to leave: 30 s
	Logger         *slog.Logger  // silent if nil
	// Prefer, if set, says who may take all the streams: the members. The others, whoever they are and however many, get half of
	// them, so that they cannot keep a member from what it missed. It must not block.
	Prefer func(slot.PeerID) bool
}

// idleGrace is how long a stream may wait for its next request while others are told that the server is busy.
const idleGrace = 2 * time.Second

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

// session is one stream that is served.
type session struct {
	from      slot.PeerID
	st        wire.Stream
	preferred bool
	admitted  bool      // else it is told that the server is busy
	since     time.Time // that it waits for a request, while it is among the idle
	buf       scratch
}

// NewServer makes a server. The caller closes it.
func NewServer(store *checkpoint.Store, cfg ServerConfig) *Server {
	s := &Server{store: store, cfg: cfg.withDefaults(), zip: newZip(), pace: pacer{rate: cfg.BytesPerSecond}}
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

// enter counts a stream in and says whether it is worth an answer, if only that the server is busy.
func (s *Server) enter(c *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	full := s.mu.served >= s.cfg.Streams || !c.preferred && s.mu.others >= max(1, s.cfg.Streams/2)
	c.admitted = !full && s.mu.perPeer[c.from] < s.cfg.PerPeer
	switch {
	case s.mu.closed, !c.admitted && s.mu.refused >= s.cfg.Streams:
		return false
	case c.admitted:
		s.mu.served++
		s.mu.perPeer[c.from]++
		if !c.preferred {
			s.mu.others++
		}
	default:
		s.mu.refused++
		if full {
			s.cutIdle()
		}
	}
	s.wg.Add(1)
	return true
}

// cutIdle ends the stream that has waited longest for a request: who only holds a place must not keep others out. mu is held.
func (s *Server) cutIdle() {
	var longest *session
	for c := range s.mu.idle {
		if longest == nil || c.since.Before(longest.since) {
			longest = c
		}
	}
	if longest != nil && time.Since(longest.since) > idleGrace {
		delete(s.mu.idle, longest)
		_ = longest.st.SetReadDeadline(time.Now()) // its goroutine does the rest
	}
}

func (s *Server) leave(c *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !c.admitted {
		s.mu.refused--
		return
	}
	s.mu.served--
	if !c.preferred {
		s.mu.others--
	}
	if s.mu.perPeer[c.from]--; s.mu.perPeer[c.from] == 0 {
		delete(s.mu.perPeer, c.from)
	}
}

func (s *Server) serve(c *session) error {
	for {
		q, err := s.await(c)
		if err != nil {
			return err
		}
		if !c.admitted {
			return s.send(c.st, head{Status: statusBusy}.append(nil))
		}
		if err := s.answer(c.st, q, &c.buf); err != nil {
			return err
		}
	}
}

// await reads the next request of a stream, which is idle until it is there.
func (s *Server) await(c *session) (request, error) {
	if c.admitted {
		c.since = time.Now()
		s.setIdle(c, true)
		defer s.setIdle(c, false)
	}
	return s.readRequest(c.st)
}

func (s *Server) setIdle(c *session, idle bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if idle {
		s.mu.idle[c] = struct{}{}
	} else {
		delete(s.mu.idle, c)
	}
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
type scratch struct{ raw, out []byte }

func (s *Server) answer(st wire.Stream, q request, buf *scratch) (err error) {
	switch q.Type {
	case askList:
		return s.sendBlock(st, appendList(buf.raw[:0], s.store.List()), buf)
	case askChunk:
		return s.sendChunk(st, q, buf)
	case askFrames:
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
	r, err := s.store.Segment(q.Root)
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
		return err
	}
	if err := s.sendBlock(st, appendHashes(buf.raw[:0], r.Size(), s.store.FrameBytes(), hashes), buf); err != nil {
		return err
	}
	for k := q.Offset; k < q.Offset+q.Length; k++ {
		if buf.raw, err = r.Frame(buf.raw[:0], int64(k)); err != nil {
			return err
		}
		if err := s.sendBlock(st, buf.raw, buf); err != nil {
			return err
		}
	}
	return nil
}

// refuse says that something is not held; any other fault ends the stream.
func (s *Server) refuse(st wire.Stream, err error) error {
	if !errors.Is(err, checkpoint.ErrNotHeld) {
		s.cfg.Logger.Warn("cannot serve a piece", "error", err)
		return err
	}
	return s.send(st, head{Status: statusNotHeld}.append(nil))
}

func (s *Server) sendBlock(st wire.Stream, b []byte, buf *scratch) error {
	buf.out = s.zip.appendBlock(buf.out[:0], b)
	return s.send(st, buf.out)
}

func (s *Server) send(st wire.Stream, b []byte) error {
	if err := s.pace.wait(s.ctx, len(b)); err != nil {
		return err
	}
	if err := st.SetWriteDeadline(time.Now().Add(s.cfg.Timeout)); err != nil {
		return err
	}
	_, err := st.Write(b)
	return err
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

// pacer spreads bytes over time.
type pacer struct {
	rate int64 // bytes a second; 0 means no limit
	mu   struct {
		sync.Mutex
		free time.Time // when the next byte may go
	}
}

// wait returns when n bytes may go, or with ctx's error.
func (p *pacer) wait(ctx context.Context, n int) error {
	if p.rate <= 0 {
		return nil
	}
	p.mu.Lock()
	now := time.Now()
	at := p.mu.free
	if at.Before(now) {
		at = now
	}
	p.mu.free = at.Add(time.Duration(float64(n) / float64(p.rate) * float64(time.Second)))
	p.mu.Unlock()
	t := time.NewTimer(at.Sub(now))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
