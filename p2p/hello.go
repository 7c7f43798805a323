package p2p

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"github.com/p2pdiloco/p2pdiloco/internal/failpoint"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/limits"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/peers"
)

// Bounds on a hello. A message carries the whole run spec with its tensor layout, so it may be
// large.
const (
	maxHello     = 4 << 20            // bytes of the encoded message
	MaxSpec      = maxHello - 512<<10 // bytes of the spec in it
	maxGiven     = 128                // fields
	maxGivenKey  = 128                // bytes
	maxGivenText = 1024               // bytes
	maxUserAgent = 128                // bytes
	maxTiming    = 32                 // bytes
	maxRefusal   = 4096               // bytes

	helloTimeout = 20 * time.Second
	helloMemory  = 64 << 20 // bytes of large hellos and answers in flight
)

// Hello is what two peers exchange first. The spec is opaque here: the caller compares and
// adopts it.
type Hello struct {
	Version uint32            // protocol version; this package fills it in and refuses others
	Run     string            // the run's name
	Given   map[string]string // spec fields that the sender was given, as text
	// the whole spec in canonical bytes, empty while the sender does not know it
	Spec        []byte
	Incarnation slot.Incarnation // 0 while the sender has no vote log of the run
	UserAgent   string           // filled in by this package if empty
	// name of the sender's timing preset, empty while it does not know the spec
	Timing string
	// newest slot of the run and how many members it has, at least 1, for who has to choose a run;
	// 0 while the sender has no spec
	Slot, Members uint64
	// what the sender's clock said when it sent this, to the millisecond; this package fills it in
	Time time.Time
}

// HelloRefused is the answer of a peer that will not have us in its run.
type HelloRefused struct {
	Peer   slot.PeerID
	Reason string // the peer's own words, printable, one line
}

func (e *HelloRefused) Error() string {
	return fmt.Sprintf("peer %s refused: %s", e.Peer.Short(), e.Reason)
}

// ErrUnresponsive is wrapped where a peer that was greeted gave no whole answer in time.
var ErrUnresponsive = errors.New("the peer gives no answer")

// Hello says hello to a peer and returns its answer. The error is a *HelloRefused when the peer
// declined with a reason.
func (n *Network) Hello(ctx context.Context, to slot.PeerID, mine Hello) (Hello, error) {
	return n.Greet(ctx, to, mine, helloTimeout)
}

// Greet is Hello to a stranger. It ends with ErrUnresponsive if nothing of an answer comes within
// patience, or what has begun to come is not whole within all of a hello's time: a length is said
// easily.
func (n *Network) Greet(ctx context.Context, to slot.PeerID, mine Hello, patience time.Duration) (Hello, error) {
	ctx, stop := context.WithTimeoutCause(ctx, helloTimeout, ErrUnresponsive)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	began := time.Now()
	limit := time.AfterFunc(patience, func() { cancel(ErrUnresponsive) })
	defer limit.Stop()
	theirs, err := n.hello(ctx, to, mine, func() { limit.Stop() })
	if err != nil && errors.Is(context.Cause(ctx), ErrUnresponsive) {
		err = fmt.Errorf("hello to %s: %w within %s", to.Short(), ErrUnresponsive, time.Since(began).Round(time.Second))
	}
	return theirs, err
}

// hello is Hello that calls heard when an answer begins to come.
func (n *Network) hello(ctx context.Context, to slot.PeerID, mine Hello, heard func()) (Hello, error) {
	s, err := n.Open(ctx, to, ProtocolHello)
	if err != nil {
		return Hello{}, err
	}
	defer s.Reset() //nolint:errcheck // everything wanted has been read
	mine.Version, mine.Time = wire.Version, failpoint.Now()
	b, err := appendHello(nil, mine)
	if err != nil {
		return Hello{}, err
	}
	stop := context.AfterFunc(ctx, func() { _ = s.Reset() })
	defer stop()
	answer, giveBack, err := n.ask(s, b, heard)
	if err != nil {
		return Hello{}, n.env.Tasks.Err(fmt.Errorf("hello to %s: %w", to.Short(), errors.Join(err, ctx.Err())))
	}
	defer giveBack()
	theirs, err := parseReply(to, answer)
	if err != nil {
		return theirs, err
	}
	if theirs.Run == mine.Run {
		n.env.Greeted.Note(peer.ID(to), time.Now())
	}
	return theirs, nil
}

// ask sends one message and reads one, on the budget for answers: strangers by the hundred may be
// asked at once.
func (n *Network) ask(s wire.Stream, b []byte, heard func()) (answer []byte, giveBack func(), err error) {
	if err := wire.WriteMessage(s, b); err != nil {
		return nil, nil, err
	}
	if err := s.CloseWrite(); err != nil {
		return nil, nil, err
	}
	size, err := wire.ReadLength(s, maxHello)
	if err != nil {
		return nil, nil, err
	}
	heard()
	return limits.ReadBody(s, size, n.answers)
}

// SetHello serves the hello protocol. f gets each hello that arrives and answers with ours, or with
// an error whose text is sent to the peer as the reason of a refusal. f may be called from several
// goroutines.
func (n *Network) SetHello(f func(from slot.PeerID, theirs Hello) (Hello, error)) {
	memory := limits.NewBudget(helloMemory)
	n.Handle(ProtocolHello, func(from slot.PeerID, s wire.Stream) {
		noted := func(from slot.PeerID, theirs Hello) (Hello, error) {
			ours, err := f(from, theirs)
			ours.Time = failpoint.Now()
			if err == nil && ours.Run == theirs.Run {
				n.env.Greeted.Note(peer.ID(from), time.Now())
			}
			return ours, err
		}
		if err := answerHello(from, s, memory, noted); err != nil {
			n.env.Log.Debug("hello failed", "peer", from, "err", err)
			_ = s.Reset()
		}
	})
}

func answerHello(from slot.PeerID, s wire.Stream, memory *limits.Budget,
	f func(slot.PeerID, Hello) (Hello, error),
) error {
	if err := s.SetDeadline(time.Now().Add(helloTimeout)); err != nil {
		return err
	}
	b, giveBack, err := limits.ReadMessage(s, maxHello, memory)
	if err != nil {
		return err
	}
	theirs, err := parseHello(b)
	if err != nil {
		giveBack()
		return err
	}
	reply, err := replyTo(from, theirs, f)
	giveBack()
	if err != nil {
		return err
	}
	if giveBack, err = memory.Lend(len(reply)); err != nil {
		return err
	}
	defer giveBack()
	return wire.WriteMessage(s, reply)
}

// replyTo is the encoded answer to a hello.
func replyTo(from slot.PeerID, theirs Hello, f func(slot.PeerID, Hello) (Hello, error)) ([]byte, error) {
	reply := &peers.HelloReply{}
	if ours, err := decide(from, theirs, f); err != nil {
		reply.Refusal = oneLine(err.Error(), maxRefusal)
	} else {
		reply.Hello = ours
	}
	return proto.Marshal(reply)
}

func decide(from slot.PeerID, theirs Hello, f func(slot.PeerID, Hello) (Hello, error)) (*peers.Hello, error) {
	if theirs.Version != wire.Version {
		return nil, &wire.VersionError{What: "your program", Theirs: fmt.Sprint(theirs.Version)}
	}
	ours, err := f(from, theirs)
	if err != nil {
		return nil, err
	}
	ours.Version = wire.Version
	return toProto(ours)
}

func parseReply(from slot.PeerID, b []byte) (Hello, error) {
	var reply peers.HelloReply
	if err := proto.Unmarshal(b, &reply); err != nil {
		return Hello{}, fmt.Errorf("answer of %s: %w: %w", from.Short(), wire.ErrMalformed, err)
	}
	if reply.Refusal != "" {
		return Hello{}, &HelloRefused{from, oneLine(reply.Refusal, maxRefusal)}
	}
	if reply.Hello == nil {
		return Hello{}, fmt.Errorf("answer of %s: %w: neither hello nor refusal", from.Short(), wire.ErrMalformed)
	}
	h, err := fromProto(reply.Hello)
	if err == nil && h.Version != wire.Version {
		err = &wire.VersionError{What: "peer " + from.Short(), Theirs: fmt.Sprint(h.Version)}
	}
	return h, err
}

// parseHello reads an encoded hello.
func parseHello(b []byte) (Hello, error) {
	var p peers.Hello
	if err := proto.Unmarshal(b, &p); err != nil {
		return Hello{}, fmt.Errorf("hello: %w: %w", wire.ErrMalformed, err)
	}
	return fromProto(&p)
}

// appendHello encodes h, or says which bound it exceeds.
func appendHello(b []byte, h Hello) ([]byte, error) {
	p, err := toProto(h)
	if err != nil {
		return nil, err
	}
	return proto.MarshalOptions{}.MarshalAppend(b, p)
}

func toProto(h Hello) (*peers.Hello, error) {
	if h.UserAgent == "" {
		h.UserAgent = userAgent
	}
	if err := h.check(); err != nil {
		return nil, err
	}
	p := &peers.Hello{
		ProtocolVersion: h.Version, Run: h.Run, Given: h.Given, Spec: h.Spec,
		Incarnation: uint64(h.Incarnation), UserAgent: h.UserAgent, Timing: h.Timing,
		Slot: h.Slot, Members: h.Members,
	}
	if !h.Time.IsZero() {
		p.Time = h.Time.UnixMilli()
	}
	return p, nil
}

func fromProto(p *peers.Hello) (Hello, error) {
	h := Hello{
		Version: p.ProtocolVersion, Run: p.Run, Given: p.Given, Spec: p.Spec,
		Incarnation: slot.Incarnation(p.Incarnation), UserAgent: oneLine(p.UserAgent, maxUserAgent), Timing: p.Timing,
		Slot: p.Slot, Members: p.Members,
	}
	if p.Time != 0 {
		h.Time = time.UnixMilli(p.Time)
	}
	return h, h.check()
}

// check holds h against the bounds.
func (h Hello) check() error {
	for _, part := range []struct {
		what       string
		size, most int
	}{
		{"run name of %d bytes", len(h.Run), limits.MaxRunName},
		{"spec of %d bytes", len(h.Spec), MaxSpec},
		{"%d spec fields", len(h.Given), maxGiven},
		{"user agent of %d bytes", len(h.UserAgent), maxUserAgent},
		{"timing of %d bytes", len(h.Timing), maxTiming},
	} {
		if part.size > part.most {
			return fmt.Errorf("hello: "+part.what+": %w (%d)", part.size, wire.ErrTooLarge, part.most)
		}
	}
	for k, v := range h.Given {
		if len(k) > maxGivenKey || len(v) > maxGivenText {
			return fmt.Errorf("hello: spec field %.40q of %d bytes: %w (%d)", k, len(v), wire.ErrTooLarge, maxGivenText)
		}
	}
	return nil
}

// oneLine makes a stranger's text fit for a terminal: valid UTF-8, no control characters, at most
// limit bytes.
func oneLine(s string, limit int) string {
	if len(s) > limit {
		s = s[:limit]
	}
	s = strings.ToValidUTF8(s, "")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case !unicode.IsPrint(r):
			return -1
		}
		return r
	}, s)
}
