package step

import (
	"cmp"
	"context"
	"encoding/gob"
	"fmt"
	"io"
	"os"

	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
)

// peers are processes that carry out orders. If one fails, or ctx ends, all are killed, so that
// nothing waits for them.
type peers struct {
	ctx   context.Context
	fail  context.CancelCauseFunc
	swarm *swarm.Swarm
	dir   string // for logs
	all   []*process
}

type process struct {
	*swarm.Process
	name    string
	stdin   io.Closer
	orders  *gob.Encoder
	answers *gob.Decoder
}

// start starts a process at a site.
func (p *peers) start(site int, name string) error {
	cmd := p.swarm.Command(site, HiddenCommand)
	if cmd.Err != nil {
		return cmd.Err
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd.Stdout = w
	started, err := p.swarm.Start(cmd, p.dir, name)
	_ = w.Close() // the process has its own
	if err != nil {
		return err
	}
	x := &process{started, name, stdin, gob.NewEncoder(stdin), gob.NewDecoder(r)}
	p.all = append(p.all, x)
	context.AfterFunc(p.ctx, func() { x.Signal(os.Kill) })
	go func() {
		<-x.Ended
		if err := x.failure(); err != nil {
			p.fail(err)
		}
	}()
	return nil
}

// failure is an error if a process that has ended has failed.
func (x *process) failure() error {
	code, _ := x.Exit()
	if code == 0 {
		return nil
	}
	return fmt.Errorf("%s ended with exit status %d; the end of its log:\n%s", x.name, code, swarm.Tail(x.Log))
}

// ask gives each process an order at once, and returns their answers.
func (p *peers) ask(of func(i int) order) (all []answer, err error) {
	for i, x := range p.all {
		if err := x.orders.Encode(of(i)); err != nil {
			return nil, p.why(x, err)
		}
	}
	for _, x := range p.all {
		var a answer
		if err := x.answers.Decode(&a); err != nil {
			return nil, p.why(x, err)
		}
		all = append(all, a)
	}
	return all, nil
}

// why is why a process has closed its pipes: it has ended, or was killed as another one failed.
func (p *peers) why(x *process, err error) error {
	<-x.Ended
	p.fail(cmp.Or(x.failure(), fmt.Errorf("%s has not answered: %w", x.name, err)))
	return context.Cause(p.ctx)
}

// end lets all processes end.
func (p *peers) end() error {
	for _, x := range p.all {
		_ = x.stdin.Close()
	}
	for _, x := range p.all {
		<-x.Ended
	}
	return context.Cause(p.ctx)
}
