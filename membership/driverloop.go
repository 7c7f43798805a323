package membership

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// loop owns the machine: it takes inputs, and carries out what they lead to before it takes more.
func (d *Driver) loop(ctx context.Context) {
	defer d.stop()
	tick := time.NewTicker(d.cfg.Timing.tick())
	defer tick.Stop()
	d.step() // what the node reported before Start comes before the first tick
	d.tick()
	for {
		if err := d.flush(ctx); err != nil {
			d.fail(err)
			return
		}
		if len(d.self) > 0 {
			d.stepSelf()
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			d.step() // what came while this process or its disk stood still is heard before anybody is taken for lost
			d.tick()
		case <-d.inputs.ready:
			d.step()
		}
	}
}

// stop ends what feeds the loop, and lets waiters go.
func (d *Driver) stop() {
	d.inbox.close()
	d.inputs.close()
	d.life.Lock()
	defer d.life.Unlock()
	d.life.cancel() // the worker's context
	close(d.done)
}

func (d *Driver) fail(err error) {
	d.log.Error("the ledger has stopped on this peer: nothing more is signed or sent", "error", err)
	d.life.Lock()
	defer d.life.Unlock()
	d.life.err = err
}

// now is the machine's clock: monotonic, from the start of the driver.
func (d *Driver) now() time.Duration { return time.Since(d.started) }

func (d *Driver) step() {
	reports, messages := d.inputs.take()
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	for _, r := range reports {
		if c, ok := r.(ReportConnected); ok {
			d.connected[c.Peer] = c
		}
		d.mu.machine.Report(now, r)
	}
	for _, m := range messages {
		if err := d.mu.machine.Step(now, m.Message); err != nil {
			d.blame.refuse(m.via, m.Message, err)
		}
	}
}

func (d *Driver) stepSelf() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, m := range d.self {
		if err := d.mu.machine.Step(d.now(), m); err != nil {
			d.blame.refuse(m.From, m, err)
		}
	}
	d.self = d.self[:0]
}

// tick also looks which peers are connected now: the transport's word, so that no notice of it can be missed.
func (d *Driver) tick() {
	up := d.cfg.Transport.Connected() // strangers connect too: there may be thousands
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	for p, relayed := range up {
		if is := (ReportConnected{Peer: p, Connected: true, Relayed: relayed}); d.connected[p] != is {
			d.connected[p] = is
			d.mu.machine.Report(now, is)
		}
	}
	for p, was := range d.connected {
		if _, is := up[p]; !is {
			if was.Connected {
				d.mu.machine.Report(now, ReportConnected{Peer: p})
			}
			delete(d.connected, p)
		}
	}
	d.mu.machine.Tick(now)
}

func (d *Driver) ready() (Ready, View) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mu.machine.Ready(), d.mu.machine.View()
}

// flush carries out what the machine wants, in the one order that is safe: disk, then everything that others can see.
func (d *Driver) flush(ctx context.Context) error {
	ready, view := d.ready()
	if len(ready.Persist) > 0 {
		if err := d.save(ready.Persist); err != nil {
			return fmt.Errorf("save the ledger: %w", err)
		}
	}
	for _, e := range ready.Send {
		if err := d.send(e); err != nil {
			return err
		}
	}
	for _, w := range ready.Work {
		d.cfg.Worker.Do(ctx, w, d.Report)
	}
	for _, e := range ready.Events {
		if d.cfg.OnEvent != nil {
			d.cfg.OnEvent(e)
		}
	}
	d.publish(view)
	return nil
}

// save saves entries. A slow disk is no death: while it takes its time this peer repeats the last ALIVE it gave, which is as true as
// before, for as long as others would wait for a straggler.
func (d *Driver) save(entries []Entry) error {
	saved := make(chan error, 1)
	d.wg.Go(func() { saved <- d.cfg.Store.Save(entries) })
	again := time.NewTicker(max(d.cfg.Timing.Alive, time.Millisecond))
	defer again.Stop()
	for began := time.Now(); ; {
		select {
		case err := <-saved:
			return err
		case <-again.C:
			if d.alive == nil || time.Since(began) > d.cfg.Timing.Straggler {
				continue
			}
			if err := d.send(*d.alive); err != nil {
				return errors.Join(err, <-saved)
			}
		}
	}
}

// send signs a body once and hands it to all it is for.
func (d *Driver) send(e Envelope) error {
	m, b, err := seal(d.cfg.Signer, d.cfg.Rules.Run, d.inc, e.Body)
	if errors.Is(err, wire.ErrTooLarge) {
		d.log.Error("a ledger message cannot be sent: the run has too many members or segments", "error", err)
		return nil
	}
	if err != nil {
		return err
	}
	for _, p := range e.To {
		if p == m.From {
			d.self = append(d.self, m)
			continue
		}
		d.cfg.Transport.Send(p, b)
	}
	if _, ok := e.Body.(Alive); ok {
		d.alive = &e
	}
	if e.Gossip && len(b) > MaxAnnouncement {
		d.log.Debug("too large to be gossiped; peers ask for it", "type", TypeName(e.Body.Type()), "bytes", len(b))
	} else if e.Gossip {
		d.cfg.Transport.Publish(b)
	}
	return nil
}

func (d *Driver) publish(v View) {
	d.view.Lock()
	defer d.view.Unlock()
	d.view.now = v
	if d.view.changed != nil {
		close(d.view.changed)
		d.view.changed = nil
	}
}
