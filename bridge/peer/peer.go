package peer

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
)

// Options are what a program adds to a peer's settings. With the zero value a peer votes and
// serves, and does not train.
type Options struct {
	// Trainer makes the trainer, in the background, once the peer has claimed its data directory
	// (cfg.DataDir). Its context ends when the peer does. The program that made the trainer closes
	// it, after the peer.
	Trainer func(ctx context.Context, cfg p2pdiloco.Config) (p2pdiloco.Trainer, error)
	// TrainerState says in plain words how far a trainer is that other processes are; nil: nothing.
	TrainerState func() string
	// OnEvent is called for every event, one at a time; it must not block, nor call the peer. The
	// events file gets the event at about the same time.
	OnEvent func(p2pdiloco.Event)
	// Notice gets, from any goroutine, what a person should know and no event says. If it is nil,
	// the logger gets it.
	Notice func(text string)
	// Logger is silent when nil.
	Logger *slog.Logger
}

// Peer is a node and its services. Its methods may be called from any goroutine.
type Peer struct {
	options Options
	cfg     p2pdiloco.Config
	began   time.Time
	services

	ctx    context.Context // of joining and the trainer's making
	cancel context.CancelFunc
	joined chan struct{}   // closed when node and err are final
	node   *p2pdiloco.Node // nil with an error
	err    error

	leaving sync.Once // the announcement to the others
	left    error
	ending  sync.Once // of the services
	ended   error
}

// Open starts a peer. It returns an error if the settings cannot be obeyed (ErrInvalid) or
// something on this machine is in the way, before it uses the network. The search for the run goes
// on in the background, until Close: joining sees the values of ctx, and not its end.
func Open(ctx context.Context, s *Settings, o Options) (*Peer, error) {
	cfg, err := s.Config()
	if err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Notice == nil {
		o.Notice = func(text string) { o.Logger.Warn(text) }
	}
	p := &Peer{options: o, cfg: cfg, began: time.Now(), joined: make(chan struct{})}
	p.cfg.Logger, p.cfg.OnEvent, p.cfg.MayFound = o.Logger, p.onEvent, p.mayFound
	if o.Trainer == nil {
		if err := p.cfg.Validate(); err != nil {
			return nil, Invalid(err)
		}
	}
	if err := p.prepare(s); err != nil {
		return nil, errors.Join(err, p.cleanUp())
	}
	p.ctx, p.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go p.join()
	return p, nil
}

// join makes the trainer and the node.
func (p *Peer) join() {
	defer close(p.joined)
	if p.options.Trainer != nil {
		if p.cfg.Trainer, p.err = p.options.Trainer(p.ctx, p.cfg); p.err != nil {
			return
		}
	}
	p.node, p.err = p2pdiloco.Join(p.dir.Lend(p.ctx), p.cfg)
}

// Dir is the data directory.
func (p *Peer) Dir() string { return p.cfg.DataDir }

// Node waits until the run has been found or founded, and returns the node. The error is that of
// ctx, or the reason why there is no node: p2pdiloco.ErrClosed if the peer was closed before.
func (p *Peer) Node(ctx context.Context) (*p2pdiloco.Node, error) {
	select {
	case <-p.joined:
	case <-ctx.Done():
		select {
		case <-p.joined: // both: the node counts
		default:
			return nil, ctx.Err()
		}
	}
	if p.err != nil && p.ctx.Err() != nil {
		return nil, errors.Join(p2pdiloco.ErrClosed, p.err)
	}
	return p.node, p.err
}

// Status is the node's status. Before there is a node it is that of a search, and ok is false
// before the peer has an identity.
func (p *Peer) Status() (s p2pdiloco.Status, ok bool) {
	if s, ok = p.status(); ok && p.options.TrainerState != nil {
		s.Trainer = p.options.TrainerState()
	}
	return s, ok
}

func (p *Peer) status() (s p2pdiloco.Status, ok bool) {
	select {
	case <-p.joined:
		if p.node != nil {
			return p.node.Status(), true
		}
	default:
	}
	started := p.self.Load()
	if started == nil {
		return s, false
	}
	addrs, _ := started.Fields["addrs"].([]string)
	return p2pdiloco.Status{
		Peer: started.Peer, Addrs: addrs, Run: p.cfg.Spec.Name, Phase: p2pdiloco.PhaseSearching,
		Members: []p2pdiloco.MemberStatus{}, Uptime: time.Since(p.began),
	}, true
}

// Leave announces that the peer leaves, waits until the members have agreed to go on without it
// (p2pdiloco.Node.Leave), and closes everything. ctx bounds the wait for others. A peer that has
// not found the run yet announces nothing.
func (p *Peer) Leave(ctx context.Context) error {
	node := p.stop()
	if node == nil || node.Status().Phase == p2pdiloco.PhaseClosed {
		return p.Close()
	}
	p.leaving.Do(func() { p.left = node.Leave(ctx) })
	return p.end(p.left)
}

// Close ends the peer at once, without an announcement, and waits for all that it started. It
// is no error to close a peer twice.
func (p *Peer) Close() error {
	var err error
	if node := p.stop(); node != nil {
		err = node.Close()
	}
	return p.end(err)
}

// stop ends joining, and returns the node if there is one.
func (p *Peer) stop() *p2pdiloco.Node {
	p.cancel()
	<-p.joined
	return p.node
}

// end closes the services, once.
func (p *Peer) end(err error) error {
	p.ending.Do(func() { p.ended = p.cleanUp() })
	return errors.Join(err, p.ended)
}
