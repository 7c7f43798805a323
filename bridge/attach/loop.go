package attach

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/p2pdiloco/p2pdiloco/bridge/attach/wire"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// beat is how often the loop looks after the ranks.
const beat = time.Second / 4

// maxNotices is how many lines for people wait until the loop has time for them.
const maxNotices = 64

// loop is the goroutine that owns the box. Others post functions to it (do), which run one after
// the other; what they return is carried out before the next.
type loop struct {
	cfg     Config
	posted  chan post
	notices chan *wire.Notice // for the ranks
	over    chan struct{}     // closed when nothing more is posted
	own     sync.WaitGroup
	reads   sync.WaitGroup
	makes   sync.WaitGroup // makes memory, and frees it

	// These belong to the goroutine.
	box    *Box
	conns  map[Conn]*conn
	last   Conn
	memory shared
	// in how many slots the private state was saved once, lately; of the node's goroutine
	savesEvery atomic.Int64
	making     *making       // under way; nil: none
	queued     chan struct{} // closed when all is done that was queued so far
	news       chan struct{} // closed when a set shares the memory, or the trainer leaves
	asked      *call         // under way
	loss       error         // why the last set is gone; nil: there was none
	// when it was lost; zero: a set shares the memory, or none ever did
	lostAt time.Time
	said   bool // people were told that
	// when people are told next for which ranks the set waits; zero: it waits for none
	tell time.Time

	done chan struct{} // closed when the peer is to end
	stop error         // why; it stays as it is once done is closed
}

// todo is what the box wants done, in that order.
type todo = []Effect

type post struct {
	f    func() todo
	done chan struct{}
}

func newLoop(cfg Config) *loop {
	l := &loop{
		cfg: cfg, posted: make(chan post), notices: make(chan *wire.Notice, maxNotices),
		over: make(chan struct{}), conns: make(map[Conn]*conn), done: make(chan struct{}),
		queued: make(chan struct{}), news: make(chan struct{}),
		box: NewBox(BoxConfig{
			Run: cfg.Run, DataDir: cfg.DataDir, PID: uint64(os.Getpid()), Timeout: cfg.Timeout, Looks: cfg.Looks,
		}),
	}
	close(l.queued)
	l.memory.discard = func(f *MemoryFile) { l.queue(func() { _ = closeFile(f) }) }
	l.own.Go(l.run)
	return l
}

func (l *loop) run() {
	ticker := time.Tick(beat)
	for {
		notices := l.notices
		if l.making != nil { // the ranks get them after the memory
			notices = nil
		}
		select {
		case p := <-l.posted:
			l.pass()
			l.carryOut(p.f())
			close(p.done)
		case n := <-notices:
			l.carryOut(l.box.Tell(n))
		case now := <-ticker:
			l.memory.beat()
			l.carryOut(l.box.Tick(now, l.memory.steps()))
			l.carryOut(l.awaitTrainer(now))
			l.carryOut(l.gathering(now))
		case <-l.over:
			return
		}
	}
}

// pass tells the ranks the lines that wait. Ranks that have no memory yet take none: then they go
// on waiting.
func (l *loop) pass() {
	for l.making == nil && len(l.notices) > 0 { // nobody else takes them
		l.carryOut(l.box.Tell(<-l.notices))
	}
}

// do runs a function in the loop, and waits until what it returned is carried out. It does nothing
// once the loop is over.
func (l *loop) do(f func() todo) {
	p := post{f, make(chan struct{})}
	select {
	case l.posted <- p:
		<-p.done
	case <-l.over:
	}
}

// close ends the loop, and gives the memory back.
func (l *loop) close() error {
	l.do(func() todo {
		for _, c := range l.conns { // they have been told already
			_ = c.socket.Close()
		}
		l.quit(errClosed)
		l.unwanted()
		return nil
	})
	l.reads.Wait()
	l.makes.Wait()
	close(l.over)
	l.own.Wait()
	return l.memory.close()
}

// welcome reads from a new connection.
func (l *loop) welcome(socket *net.UnixConn) {
	l.do(func() todo {
		l.last++
		c := &conn{l.last, socket}
		l.conns[c.number] = c
		l.reads.Go(func() { c.read(l) })
		return nil
	})
}

// gone forgets a connection that has ended.
func (l *loop) gone(c *conn, err error) todo {
	if l.conns[c.number] == nil {
		return nil // it was closed here
	}
	delete(l.conns, c.number)
	_ = c.socket.Close()
	return l.box.Closed(c.number, why(err))
}

// carryOut does what the box wants, and what follows from that.
func (l *loop) carryOut(effects todo) {
	for len(effects) > 0 {
		first := effects[0]
		effects = append(effects[1:], l.effect(first)...)
	}
}

func (l *loop) effect(e Effect) todo {
	switch e := e.(type) {
	case Send:
		return l.send(e, nil)
	case Close:
		if c := l.conns[e.Conn]; c != nil {
			delete(l.conns, e.Conn)
			_ = c.socket.Close()
		}
	case Share:
		l.share(e)
	case Unwanted:
		l.unwanted()
	case Answered:
		l.answered(e)
	case Lost:
		l.lost(e.Fault)
	case Leave:
		l.quit(fmt.Errorf("%w: %s", ErrLeave, e.Reason))
		return l.box.End(Fault{Code: wire.CodeClosed, Text: "the peer leaves the run: " + e.Reason})
	}
	return nil
}

// quit says that the peer is to end. The first reason counts.
func (l *loop) quit(why error) {
	if l.stop == nil {
		l.stop = why
		close(l.done)
	}
	l.wake()
}

// awaitTrainer looks after a trainer that is gone: it tells people, and ends the peer's wait for
// the next one. The node may not call its trainer for long, as when it looks for the run.
func (l *loop) awaitTrainer(now time.Time) todo {
	if l.lostAt.IsZero() || l.stop != nil || l.box.Over() {
		return nil
	}
	if l.making != nil { // a trainer is there; if that is lost, the time begins anew
		l.lostAt = now
		return nil
	}
	wait := l.cfg.Return
	switch {
	case wait < 0:
		wait = attachesAnew
	case !l.said:
		l.said = true
		l.cfg.Notice(fmt.Sprintf("the trainer is gone: %v. This peer stays a member, and waits %v (--trainer-return) "+
			"for a trainer that attaches", l.loss, wait))
	}
	if now.Sub(l.lostAt) < wait {
		return nil
	}
	l.quit(fmt.Errorf("%w within %v (--trainer-return)", ErrNoReturn, max(0, l.cfg.Return)))
	return l.box.End(Fault{Code: wire.CodeClosed, Text: "the node has ended: " + l.stop.Error()})
}

// gathering tells people every so often which ranks the others wait for, also in the output of a
// rank: where a trainer has started the node, nobody sees the node's.
func (l *loop) gathering(now time.Time) todo {
	missing := l.box.Missing()
	switch {
	case missing == "":
		l.tell = time.Time{}
	case l.tell.IsZero():
		l.tell = now.Add(l.cfg.Gathers / 6)
	case !now.Before(l.tell):
		l.tell = now.Add(l.cfg.Gathers)
		text := "the trainer is not complete: " + missing + ". Training begins when all have, and not rank 0 alone"
		l.cfg.Notice(text)
		return l.box.TellLowest(&wire.Notice{Level: wire.NoticeWarn, Text: text})
	}
	return nil
}

// attachesAnew is the time that a trainer has which ends its connection and attaches again at once,
// where a peer does not stay for one that is gone.
const attachesAnew = 2 * time.Second

func (l *loop) send(e Send, files []*os.File) todo {
	c := l.conns[e.Conn]
	if c == nil {
		return nil
	}
	if err := c.send(e.ID, e.Message, files); err != nil {
		return l.gone(c, err)
	}
	return nil
}

// wake tells those who wait for a set to look again.
func (l *loop) wake() {
	close(l.news)
	l.news = make(chan struct{})
}

// answered ends the call under way.
func (l *loop) answered(e Answered) {
	l.asked.answers = e.Answers
	close(l.asked.done)
	l.asked = nil
}

// lost ends the call under way because its set is gone.
func (l *loop) lost(f Fault) {
	l.memory.drop()
	l.loss, l.lostAt = f, time.Now()
	l.cfg.Logger.Info("the trainer is gone", "why", f.Text)
	if l.asked != nil {
		l.asked.err = fmt.Errorf("%w: %w", trainer.ErrAnew, f)
		close(l.asked.done)
		l.asked = nil
	}
}

// call is a request under way.
type call struct {
	id      uint64
	done    chan struct{} // closed when it has ended
	answers []wire.Message
	err     error
}

// ask sends a request to the ranks of the set whose memory the node works in.
func (l *loop) ask(m wire.Message) *call {
	c, err := &call{done: make(chan struct{})}, errClosed
	l.do(func() todo {
		if _, trains := m.(*wire.Train); trains {
			l.memory.clearSteps()
		}
		id, effects, ok := l.box.Ask(time.Now(), l.memory.epoch, m)
		if !ok {
			err = fmt.Errorf("%w: no trainer is attached", trainer.ErrAnew)
			if l.loss != nil { // between two calls
				err = fmt.Errorf("%w: %w", trainer.ErrAnew, l.loss)
			}
			return nil
		}
		c.id, err = id, nil
		l.asked = c
		return effects
	})
	if err != nil { // the loop does not know the call; else it ends the call, at any time from now
		c.err = err
		close(c.done)
	}
	return c
}

var errClosed = errors.New("the socket for trainers is closed")

// adopt has the node work in the memory of the newest set. If there is none, it returns a channel
// that is closed when it is worth trying again.
func (l *loop) adopt() (again <-chan struct{}, err error) {
	err = errClosed
	l.do(func() todo {
		switch {
		case l.stop != nil:
			err = l.stop
		case l.memory.came != nil:
			err = l.memory.adopt()
		default:
			again, err = l.news, nil
		}
		return nil
	})
	return again, err
}
