package attach

import (
	"context"
	"errors"
	"time"

	"github.com/p2pdiloco/p2pdiloco/bridge/attach/wire"
)

// making is the memory of a set that has come together. It takes seconds for a model of many GB,
// because all of it is there from the beginning. A goroutine makes it, and the loop answers
// meanwhile:
//
//	Share     the goroutine makes the files, when all work before has ended (queue)
//	Unwanted  a rank was lost, or the node ends: the goroutine stops, and closes what it has
//	          the loop takes over the files, and sends them to the ranks
type making struct {
	share    Share
	first    bool // start is made, too
	scarcity string
	stop     context.CancelFunc
}

// share has the memory of a set made.
func (l *loop) share(e Share) {
	ctx, stop := context.WithCancel(context.Background())
	m := &making{share: e, first: l.memory.start == nil, stop: stop}
	l.making = m
	l.queue(func() {
		defer stop()
		l.make(ctx, m)
	})
}

// queue has work done beside the loop, when all before it is done: what is made finds free what was
// discarded before.
func (l *loop) queue(work func()) {
	before, done := l.queued, make(chan struct{})
	l.queued = done
	l.makes.Go(func() {
		<-before
		work()
		close(done)
	})
}

// unwanted has no memory made any more.
func (l *loop) unwanted() {
	if l.making != nil {
		l.making.stop()
		l.making = nil
	}
}

// make makes the files of a set, and has the loop take them over.
func (l *loop) make(ctx context.Context, m *making) {
	if m.first {
		m.scarcity = scarce(m.share.Layout, free())
	}
	start, local, err := m.files(ctx)
	taken := false
	l.do(func() (effects todo) {
		if l.making == m {
			l.making = nil
			effects, taken = l.made(m, start, local, err)
		}
		return effects
	})
	if !taken {
		_ = closeFiles(start, local)
	}
}

// files makes what the set needs: start is nil where the node has one.
func (m *making) files(ctx context.Context) (start, local *MemoryFile, err error) {
	size := Size(m.share.Elements)
	if m.first {
		if start, err = newFile(ctx, size); err != nil {
			return nil, nil, err
		}
	}
	if local, err = newFile(ctx, size); err != nil {
		return nil, nil, errors.Join(err, closeFiles(start))
	}
	return start, local, nil
}

func closeFiles(files ...*MemoryFile) (err error) {
	for _, f := range files {
		if f != nil {
			err = errors.Join(err, closeFile(f))
		}
	}
	return err
}

// made sends the memory to all ranks. Where it could not be had, the set is sent away.
func (l *loop) made(m *making, start, local *MemoryFile, err error) (effects todo, taken bool) {
	e := m.share
	if err == nil {
		err = l.memory.next(e, start, local)
	}
	if err != nil {
		l.cfg.Logger.Error("a trainer was refused", "err", err)
		l.cfg.Notice("a trainer was refused before its first step: " + err.Error())
		return l.box.Unshared(Fault{Code: wire.CodeMemory, Text: err.Error()}), false
	}
	l.cfg.Logger.Info("a trainer has attached", "ranks", len(e.Shares), "epoch", e.Epoch)
	known := l.box.Shared(time.Now())
	for _, s := range e.Shares {
		share := s.Message.(*wire.Share)
		share.Offset, share.Size = offset, l.memory.size
		effects = append(effects, l.send(s, l.memory.descriptors())...)
	}
	if l.said {
		l.cfg.Notice("a trainer has attached again: it goes on from the newest anchor")
	}
	if m.scarcity != "" {
		l.cfg.Notice(m.scarcity)
		known = append(known, l.box.Tell(&wire.Notice{Level: wire.NoticeWarn, Text: m.scarcity})...)
	}
	l.lostAt, l.said = time.Time{}, false
	l.wake()
	return append(known, effects...), true
}
