package main

import (
	"context"
	"encoding/json"
	"io"
	"sync"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/node"
	"github.com/p2pdiloco/p2pdiloco/cmd/p2pdiloco/internal/local"
	"github.com/p2pdiloco/p2pdiloco/internal/api"
	"github.com/p2pdiloco/p2pdiloco/internal/doctor"
	"github.com/p2pdiloco/p2pdiloco/internal/view"
)

// watched is the peer whose run dashboard and top show.
type watched struct {
	operator local.Operator
	mu       struct {
		sync.Mutex
		addr  api.Address
		token string
		known bool
		dir   string // of its data, as it says
	}
}

// place is where the peer's API is. It is looked for again after the peer has not answered: one
// that was started again may be elsewhere.
func (p *watched) place(ctx context.Context) (addr api.Address, token string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.mu.known {
		if p.mu.addr, p.mu.token, err = p.operator.Peer(ctx); err != nil {
			return addr, "", err
		}
		p.mu.known = true
	}
	return p.mu.addr, p.mu.token, nil
}

func (p *watched) source() view.Source {
	return view.Source{Status: p.status, Events: p.events, Waits: node.Waits, Sentence: p.sentence}
}

func (p *watched) status(ctx context.Context) (s p2pdiloco.Status, err error) {
	addr, token, err := p.place(ctx)
	if err == nil {
		_, err = api.Get(ctx, addr, token, &s)
	}
	if err != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.mu.known = false
	}
	return s, err
}

func (p *watched) events(ctx context.Context, after uint64) ([]json.RawMessage, uint64, error) {
	addr, token, err := p.place(ctx)
	if err != nil {
		return nil, 0, err
	}
	r, err := api.Events(ctx, addr, token, after)
	return r.Events, r.Next, err
}

func (p *watched) sentence(e p2pdiloco.Event) (text string, grave bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if dir, ok := e.Fields["data_dir"].(string); ok {
		p.mu.dir = dir
	}
	return node.Sentence(e, p.mu.dir)
}

// doctor examines the peer, as the command of that name does.
func (p *watched) doctor(ctx context.Context) ([]doctor.Finding, error) {
	f := doctorFlags{api: p.operator.API, dir: p.operator.Dir}
	findings, _, err := f.findings(ctx, io.Discard)
	return findings, err
}

func (p *watched) move(ctx context.Context, action, about string) error {
	addr, token, err := p.place(ctx)
	if err != nil {
		return err
	}
	return api.Move(ctx, addr, token, action, about)
}
