package membership

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// loop steps the machine. It takes inputs, and carries out what they lead to before it takes more.
type loop struct {
	cfg    DriverConfig
	core   *core
	views  *views
	inputs *inputs
	blame  *blame
	worker Worker

	sender    *sender
	started   time.Time
	seen      time.Time                       // when the machine last got the time
	connected map[slot.PeerID]ReportConnected // the newest of each peer
}

func newLoop(cfg DriverConfig, core *core, views *views, inputs *inputs, blame *blame, worker Worker) *loop {
	return &loop{
		cfg: cfg, core: core, views: views, inputs: inputs, blame: blame, worker: worker,
		sender:  newSender(cfg, core.mu.machine.cfg.Incarnation),
		started: time.Now(), seen: time.Now(), connected: map[slot.PeerID]ReportConnected{},
	}
}

// run works until ctx ends, or until the store or the signer fails.
func (l *loop) run(ctx context.Context) error {
	tick := time.NewTicker(l.cfg.Timing.tick())
	defer tick.Stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l.step() // what the node reported before Start comes before the first tick
	l.tick()
	for {
		if err := l.flush(ctx); err != nil {
			return err
		}
		if len(l.sender.own) > 0 {
			l.stepOwn()
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			// Inputs that came while this process or its disk stood still come first, so that no
			// peer is taken for lost while its message waits.
			l.step()
			l.tick()
		case <-l.inputs.ready:
			l.step()
		}
	}
}

// now is the machine's clock: monotonic, from the start of the driver.
func (l *loop) now() time.Duration { return time.Since(l.started) }

// leastAway is the shortest time without an input or a tick that counts as one in which this peer
// did not run.
const leastAway = 5 * time.Second

// noticeReturn tells the machine that this peer did not run since the last input or tick.
func (l *loop) noticeReturn(now time.Duration) {
	last := l.seen
	l.seen = time.Now()
	if stoodStill(last, l.seen, max(leastAway, l.cfg.Timing.Lost)) {
		l.core.mu.machine.Report(now, ReportReturned{})
	}
}

// stoodStill says whether more than a time has passed. The monotonic clock goes on while a process
// is stopped; while the machine sleeps it may stop, and the clock of the day goes on.
func stoodStill(last, now time.Time, most time.Duration) bool {
	return max(now.Sub(last), now.Round(0).Sub(last.Round(0))) > most
}

func (l *loop) step() {
	reports, messages := l.inputs.drain()
	l.core.mu.Lock()
	defer l.core.mu.Unlock()
	now := l.now()
	l.noticeReturn(now)
	for _, r := range reports {
		if c, ok := r.(ReportConnected); ok {
			l.connected[c.Peer] = c
		}
		l.core.mu.machine.Report(now, r)
	}
	for _, m := range messages {
		if err := l.core.mu.machine.Step(now, m.Message); err != nil {
			l.blame.refused(m.via, m.Message, err)
		}
	}
}

func (l *loop) stepOwn() {
	l.core.mu.Lock()
	defer l.core.mu.Unlock()
	for _, m := range l.sender.takeOwn() {
		if err := l.core.mu.machine.Step(l.now(), m); err != nil {
			l.blame.refused(m.From, m, err)
		}
	}
}

// tick also asks the transport which peers are connected now, so that no notice of a connection can
// be missed.
func (l *loop) tick() {
	up := l.cfg.Transport.Connected() // strangers connect too: there may be thousands
	l.core.mu.Lock()
	defer l.core.mu.Unlock()
	now, machine := l.now(), l.core.mu.machine
	l.noticeReturn(now)
	for p, relayed := range up {
		if is := (ReportConnected{Peer: p, Connected: true, Relayed: relayed}); l.connected[p] != is {
			l.connected[p] = is
			machine.Report(now, is)
		}
	}
	for p, was := range l.connected {
		if _, is := up[p]; !is {
			if was.Connected {
				machine.Report(now, ReportConnected{Peer: p})
			}
			delete(l.connected, p)
		}
	}
	machine.Tick(now)
}

func (l *loop) ready() (Ready, View) {
	l.core.mu.Lock()
	defer l.core.mu.Unlock()
	return l.core.mu.machine.Ready(), l.core.mu.machine.View()
}

// flush carries out what the machine wants, in the one order that is safe: the disk first, then
// everything that others can see.
func (l *loop) flush(ctx context.Context) error {
	ready, view := l.ready()
	if len(ready.Persist) > 0 {
		passUnsaved(ready.Persist)
		if err := l.save(ready.Persist); err != nil {
			return fmt.Errorf("save the ledger: %w", err)
		}
		passSaved(ready.Persist)
	}
	for _, e := range ready.Send {
		if err := l.sender.send(e); err != nil {
			return err
		}
	}
	for _, w := range ready.Work {
		l.worker.Do(ctx, w, l.inputs.report)
	}
	for _, e := range ready.Events {
		if l.cfg.OnEvent != nil {
			l.cfg.OnEvent(e)
		}
	}
	l.views.publish(view)
	return nil
}

// save saves entries. A slow disk does not mean that the peer is dead. While the disk takes its
// time, the peer repeats its last ALIVE, which is still true, for as long as the others would wait
// for a straggler.
func (l *loop) save(entries []wire.Entry) error {
	saved := make(chan error, 1)
	go func() { saved <- l.cfg.Store.Save(entries) }()
	again := time.NewTicker(max(l.cfg.Timing.Alive, time.Millisecond))
	defer again.Stop()
	for began := time.Now(); ; {
		select {
		case err := <-saved:
			return err
		case <-again.C:
			if time.Since(began) > l.cfg.Timing.Straggler {
				continue
			}
			if err := l.sender.repeatAlive(); err != nil {
				return errors.Join(err, <-saved)
			}
		}
	}
}
