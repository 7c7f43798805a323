package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// A packet's way through the lab:
//
//  1. the node's kernel puts it into the TUN device 2. listen reads it (one goroutine a node)
//  3. under the lock: the fabric queues it on its uplink 4. pump lets the fabric's time pass, under
//     the lock: rate, delay, loss, cuts 5. pump writes what arrived into the receivers' TUN
//     devices, outside the lock (one goroutine for all)
//
// The fabric's times are exact whenever the pump wakes: if it is late by a millisecond, packets are
// late by a millisecond, and the rate stays the same.

// grain is the least time between two rounds of the pump. A longer time handles more packets a
// round, with more delay.
const grain = 250 * time.Microsecond

// A Lab is a set of nodes and the network between them. Its methods may be called from any
// goroutine; nodes are numbered from 0.
type Lab struct {
	Hosts
	devices []io.ReadWriteCloser // a packet each Read and each Write
	began   time.Time
	mu      struct {
		sync.Mutex
		fabric *fabric
		passed time.Duration // when the pump woke last
	}
	alarm *time.Timer // of the pump
	done  chan struct{}
	wg    sync.WaitGroup
	close sync.Once
}

// New makes a lab, after removing what crashed owners of labs of this Name left. It fails with
// ErrNotRoot or, elsewhere than on Linux, with errors.ErrUnsupported. ctx ends the making only;
// Close ends the lab.
func New(ctx context.Context, cfg Config) (*Lab, error) {
	hosts, err := newHosts(ctx, cfg, cfg.Nodes)
	if err != nil {
		return nil, err
	}
	var devices []io.ReadWriteCloser
	for i, s := range hosts.spaces {
		d, err := openTun(s)
		if err == nil {
			devices = append(devices, d)
			err = s.IP(ctx, nodeScript(hosts.cfg, i))
		}
		if err != nil {
			for _, d := range devices {
				err = errors.Join(err, d.Close())
			}
			return nil, errors.Join(err, hosts.Close())
		}
	}
	return start(hosts, devices), nil
}

func start(hosts Hosts, devices []io.ReadWriteCloser) *Lab {
	l := &Lab{
		Hosts: hosts, devices: devices, began: time.Now(), alarm: time.NewTimer(never), done: make(chan struct{}),
	}
	l.mu.fabric = newFabric(hosts.cfg.Nodes, hosts.cfg.Link)
	l.wg.Go(l.pump)
	for i := range devices {
		l.wg.Go(func() { l.listen(i) })
	}
	return l
}

// Close takes the network down and removes the namespaces, in which processes must have ended.
func (l *Lab) Close() (err error) {
	l.close.Do(func() {
		close(l.done)
		for _, d := range l.devices {
			err = errors.Join(err, d.Close())
		}
		l.wg.Wait()
		err = errors.Join(err, l.Hosts.Close())
	})
	return err
}

// listen reads what node i sends, until its device is closed: one that is up has no other errors.
func (l *Lab) listen(i int) {
	buf := make([]byte, l.cfg.MTU)
	for {
		n, err := l.devices[i].Read(buf)
		if err != nil {
			return
		}
		l.send(i, bytes.Clone(buf[:n]))
	}
}

// send passes a packet of node i to the fabric, if it goes to a node.
func (l *Lab) send(i int, data []byte) {
	to, ok := l.cfg.destination(data)
	if !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.fabric.send(time.Since(l.began), &packet{data: data, from: i, to: to})
	l.wake()
}

// wake sets the alarm for what is due first. Call it with the lock held.
func (l *Lab) wake() {
	l.alarm.Reset(max(l.mu.fabric.next(), l.mu.passed+grain) - time.Since(l.began))
}

// pump passes the fabric's time and delivers what arrives.
func (l *Lab) pump() {
	for {
		select {
		case <-l.alarm.C:
		case <-l.done:
			return
		}
		for _, pk := range l.pass() {
			// a packet that the kernel does not take is lost, as on any network
			_, _ = l.devices[pk.to].Write(pk.data)
		}
	}
}

// pass lets the fabric's time pass until now.
func (l *Lab) pass() (due []*packet) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.passed = time.Since(l.began)
	due = l.mu.fabric.deliver(l.mu.passed)
	l.wake()
	return due
}

// SetLink changes node i's link.
func (l *Lab) SetLink(i int, link Link) error {
	return l.change(func(f *fabric, now time.Duration) { f.setLink(now, i, link) }, i)
}

// Cut unplugs nodes: they reach nobody, and nobody reaches them.
func (l *Lab) Cut(nodes ...int) error {
	return l.cut(nodes, func(from, to bool) bool { return from || to })
}

// Mute cuts nodes off in one direction: what they send reaches nobody, and what others send reaches
// them.
func (l *Lab) Mute(nodes ...int) error {
	return l.cut(nodes, func(from, _ bool) bool { return from })
}

// CutPair keeps nodes i and j from reaching each other; both reach all others.
func (l *Lab) CutPair(i, j int) error {
	return l.cut([]int{i, j}, func(from, to bool) bool { return from && to })
}

// Partition keeps nodes from reaching the others, and the others from reaching them.
func (l *Lab) Partition(nodes ...int) error {
	return l.cut(nodes, func(from, to bool) bool { return from != to })
}

func (l *Lab) cut(nodes []int, stops func(from, to bool) bool) error {
	return l.change(func(f *fabric, _ time.Duration) { f.cuts = append(f.cuts, cut{nodes, stops}) }, nodes...)
}

// Heal takes back all cuts in which one of the nodes was named; without any, all cuts. Links stay
// as they are.
func (l *Lab) Heal(nodes ...int) error {
	return l.change(func(f *fabric, _ time.Duration) { f.heal(nodes...) }, nodes...)
}

// change does something to the fabric that concerns nodes.
func (l *Lab) change(do func(f *fabric, now time.Duration), nodes ...int) error {
	if err := l.check(nodes...); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.done:
		return fmt.Errorf("lab: %w", net.ErrClosed)
	default:
	}
	now := time.Since(l.began)
	l.mu.fabric.advance(now) // what is due happens under the old rules
	do(l.mu.fabric, now)
	l.wake()
	return nil
}
