package p2p

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/limits"
)

// Bounds on a hello. A message carries the whole run spec with its tensor layout, so it may be
// large.
const (
	maxHello     = 4 << 20            // bytes of the encoded message
	MaxSpec      = maxHello - 512<<10 // bytes of the spec in it
	maxVersion   = 1<<16 - 1
	maxGiven     = 128  // fields
	minGiven     = 8    // bytes of one
	maxGivenKey  = 128  // bytes
	maxGivenText = 1024 // bytes
	maxUserAgent = 128  // bytes
	maxTiming    = 32   // bytes
	maxRefusal   = 4096 // bytes

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
func (n *Network) Greet(ctx context.Context, to slot.PeerID, mine Hello, patience time.Duration) (theirs Hello,
	err error,
) {
	ctx, stop := context.WithTimeoutCause(ctx, helloTimeout, ErrUnresponsive)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	began := time.Now()
	limit := time.AfterFunc(patience, func() { cancel(ErrUnresponsive) })
	defer limit.Stop()
	s, err := n.Open(ctx, to, ProtocolHello)
	if err == nil {
		defer s.Reset() //nolint:errcheck // everything wanted has been read
		defer context.AfterFunc(ctx, func() { _ = s.Reset() })()
		theirs, err = n.greet(s, to, mine, func() { limit.Stop() })
	}
	switch {
	case err == nil && theirs.Run == mine.Run:
		n.env.Greeted.Note(peer.ID(to), time.Now())
	case err == nil:
	case errors.Is(context.Cause(ctx), ErrUnresponsive):
		err = fmt.Errorf("hello to %s: %w within %s", to.Short(), ErrUnresponsive, time.Since(began).Round(time.Second))
	case ctx.Err() != nil:
		err = errors.Join(err, ctx.Err())
	}
	return theirs, err
}

// greet exchanges hellos on a stream. It calls heard when an answer begins to come.
func (n *Network) greet(s wire.Stream, to slot.PeerID, mine Hello, heard func()) (Hello, error) {
	mine.Version = wire.Version
	b, err := appendHello(nil, mine)
	if err != nil {
		return Hello{}, err
	}
	answer, giveBack, err := n.ask(s, b, heard)
	if err != nil {
		return Hello{}, n.env.Tasks.Err(fmt.Errorf("hello to %s: %w", to.Short(), err))
	}
	defer giveBack()
	return parseReply(to, answer)
}

// ask sends one message and reads one, on the budget for answers: strangers by the hundred may be
// asked at once.
func (n *Network) ask(s wire.Stream, b []byte, heard func()) (answer []byte, giveBack func(), err error) {
	if err := cmp.Or(wire.WriteMessage(s, b), s.CloseWrite()); err != nil {
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
	reply := replyTo(from, theirs, f)
	giveBack()
	if giveBack, err = memory.Lend(len(reply)); err != nil {
		return err
	}
	defer giveBack()
	return wire.WriteMessage(s, reply)
}

// What a reply begins with.
const (
	replyHello   = iota // the answerer's hello follows
	replyRefusal        // the reason in words follows
)

// replyTo is the encoded answer to a hello.
func replyTo(from slot.PeerID, theirs Hello, f func(slot.PeerID, Hello) (Hello, error)) []byte {
	var ours Hello
	err := versionError("your program", theirs.Version)
	if err == nil {
		ours, err = f(from, theirs)
	}
	ours.Version = wire.Version
	reply := []byte{replyHello}
	if err == nil {
		reply, err = appendHello(reply, ours)
	}
	if err != nil {
		return append([]byte{replyRefusal}, oneLine(err.Error(), maxRefusal)...)
	}
	return reply
}

func versionError(what string, version uint32) error {
	if version == wire.Version {
		return nil
	}
	return &wire.VersionError{What: what, Theirs: fmt.Sprint(version)}
}

func parseReply(from slot.PeerID, b []byte) (h Hello, err error) {
	switch {
	case len(b) > 0 && b[0] == replyHello:
		if h, err = parseHello(b[1:]); err == nil {
			err = versionError("peer "+from.Short(), h.Version)
		}
		return h, err
	case len(b) > 1 && b[0] == replyRefusal:
		return h, &HelloRefused{from, oneLine(string(b[1:]), maxRefusal)}
	}
	return h, fmt.Errorf("answer of %s: %w: neither hello nor refusal", from.Short(), wire.ErrMalformed)
}

// parseHello reads an encoded hello; of one of another version only that.
func parseHello(b []byte) (h Hello, err error) {
	r := wire.NewReader(b)
	if h.Version = r.U32(); h.Version != wire.Version {
		if h.Version > maxVersion {
			r.Fail("a hello of version %d", h.Version)
		}
		return h, r.Err()
	}
	text := func() string { return string(r.Bytes(len(b))) }
	h.Run = text()
	fields := r.Count(len(b), minGiven)
	if fields > maxGiven {
		return h, tooLarge("%d spec fields", fields, maxGiven)
	}
	h.Given = make(map[string]string, fields)
	for last := ""; len(h.Given) < fields && r.Err() == nil; {
		name := text()
		if len(h.Given) > 0 && name <= last {
			r.Fail("spec field %.40q out of order", name)
		}
		h.Given[name], last = text(), name
	}
	h.Spec, h.Incarnation = r.Bytes(len(b)), slot.Incarnation(r.U64())
	h.UserAgent, h.Timing = oneLine(text(), maxUserAgent), text()
	h.Slot, h.Members = r.U64(), r.U64()
	return h, cmp.Or(r.Done(), h.check())
}

// appendHello encodes h, or says which bound it exceeds.
func appendHello(b []byte, h Hello) ([]byte, error) {
	h.UserAgent = cmp.Or(h.UserAgent, userAgent)
	return h.append(b), h.check()
}

func (h Hello) append(b []byte) []byte {
	b = wire.AppendBytes(wire.AppendU32(b, h.Version), h.Run)
	b = wire.AppendU32(b, uint32(len(h.Given)))
	for _, name := range slices.Sorted(maps.Keys(h.Given)) {
		b = wire.AppendBytes(wire.AppendBytes(b, name), h.Given[name])
	}
	b = wire.AppendU64(wire.AppendBytes(b, h.Spec), uint64(h.Incarnation))
	b = wire.AppendBytes(wire.AppendBytes(b, h.UserAgent), h.Timing)
	return wire.AppendU64(wire.AppendU64(b, h.Slot), h.Members)
}

func tooLarge(what string, size, most int) error {
	return fmt.Errorf("hello: "+what+": %w (%d)", size, wire.ErrTooLarge, most)
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
			return tooLarge(part.what, part.size, part.most)
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
