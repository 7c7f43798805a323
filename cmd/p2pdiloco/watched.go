package main

import (
	"context"
	"io"
	"path/filepath"
	"sync"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/internal/api"
	"github.com/p2pdiloco/p2pdiloco/internal/doctor"
	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
	"github.com/p2pdiloco/p2pdiloco/internal/node/datadir"
	"github.com/p2pdiloco/p2pdiloco/internal/view"
)

// watched is the peer whose run dashboard and top show.
type watched struct {
	operator operator
	mu       struct {
		sync.Mutex
		peer  localPeer
		known bool
	}
	metrics *eventlog.Follower // of the newest dir; of the watcher
	at      string             // that dir
}

// place is where the peer's API is. It is looked for again after the peer has not answered: one
// that was started again may be elsewhere.
func (p *watched) place(ctx context.Context) (peer api.Client, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.mu.known {
		p.mu.peer, err = p.operator.find(ctx)
		p.mu.known = err == nil
	}
	return p.mu.peer.Client, err
}

// watch asks the peer again and again, until end is called.
func (p *watched) watch(ctx context.Context) (w *view.Watcher, end func()) {
	w = view.NewWatcher(view.Source{
		Status: p.status, Events: p.events, Metrics: p.slots, Waits: cli.Waits, Sentence: p.sentence,
	})
	ctx, stop := context.WithCancel(ctx)
	var asking sync.WaitGroup
	asking.Go(func() { w.Run(ctx) })
	return w, func() {
		stop()
		asking.Wait()
		p.close()
	}
}

func (p *watched) status(ctx context.Context) (s p2pdiloco.Status, err error) {
	peer, err := p.place(ctx)
	if err == nil {
		_, err = peer.Get(ctx, &s)
	}
	if err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.mu.known = false
	}
	return s, err
}

func (p *watched) events(ctx context.Context, after uint64) (api.Recent, error) {
	peer, err := p.place(ctx)
	if err != nil {
		return api.Recent{}, err
	}
	return peer.Events(ctx, after)
}

func (p *watched) sentence(e p2pdiloco.Event) (text string, grave bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if dir, ok := e.Fields["data_dir"].(string); ok && p.mu.peer.Dir == "" {
		p.mu.peer.Dir = dir
	}
	return cli.Sentence(e, p.mu.peer.Dir)
}

// slots reads what is new in the peer's metrics file.
func (p *watched) slots(f func(line []byte)) error {
	p.mu.Lock()
	dir := p.mu.peer.Dir
	p.mu.Unlock()
	if dir == "" {
		return nil
	}
	if p.metrics == nil || p.at != dir {
		p.close()
		p.metrics, p.at = eventlog.Follow(filepath.Join(dir, datadir.MetricsFile)), dir
	}
	return p.metrics.Next(f)
}

// close closes the metrics file. Nobody may watch any more.
func (p *watched) close() {
	if p.metrics != nil {
		_ = p.metrics.Close() // it was only read
	}
}

// doctor examines the peer, as the command of that name does.
func (p *watched) doctor(ctx context.Context) ([]doctor.Finding, error) {
	f := doctorFlags{operator: p.operator}
	findings, _, err := f.findings(ctx, io.Discard)
	return findings, err
}

func (p *watched) move(ctx context.Context, action, about string) error {
	peer, err := p.place(ctx)
	if err != nil {
		return err
	}
	return peer.Move(ctx, action, about)
}

func (p *watched) ask(ctx context.Context, prompt string) (api.Answer, error) {
	peer, err := p.place(ctx)
	if err != nil {
		return api.Answer{}, err
	}
	return peer.Ask(ctx, prompt)
}
