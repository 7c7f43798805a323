package lab

import "time"

// A packet's way through the lab:
//
//  1. the node's kernel puts it into the TUN device 2. listen reads it, with all others that are
//     there (one goroutine a node) 3. under the lock: the fabric queues it on its uplink 4. pump
//     lets the fabric's time pass, under the lock: rate, delay, loss, cuts 5. pump writes
//     what arrived into the receivers' TUN devices, outside the lock (one goroutine for all)
//
// The fabric's times are exact whenever the pump wakes: if it is late by a millisecond, packets are
// late by a millisecond, and the rate stays the same.

const (
	batchSize = 64
	// grain is the least time between two rounds of the pump. A longer time handles more packets a
	// round, with more delay.
	grain = 250 * time.Microsecond
	never = time.Duration(1<<63 - 1)
)

// listen reads what node i sends, until its device is closed.
func (l *Lab) listen(i int) {
	batch := make([]*packet, batchSize)
	for {
		for k := range batch {
			if batch[k] == nil {
				batch[k] = l.packets.Get().(*packet)
			}
		}
		n, err := l.devices[i].read(batch)
		if err != nil {
			return // Close; a TUN device that is up has no other errors
		}
		l.send(i, batch[:n])
	}
}

// send passes packets of node i to the fabric. Packets to no node stay in the batch, which is used
// again.
func (l *Lab) send(i int, batch []*packet) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Since(l.began)
	for k, pk := range batch {
		to, ok := l.cfg.destination(pk.data)
		if !ok {
			continue
		}
		pk.from, pk.to = i, to
		l.mu.fabric.send(now, pk)
		batch[k] = nil
	}
	l.ring()
}

// ring wakes the pump if something is due well before it would wake by itself. Call it with the
// lock held.
func (l *Lab) ring() {
	if at, ok := l.mu.fabric.next(); !ok || at+grain >= l.mu.alarm {
		return
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// pump passes the fabric's time and delivers what arrives.
func (l *Lab) pump() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var due []*packet
	for {
		select {
		case <-timer.C:
		case <-l.wake:
		case <-l.done:
			return
		}
		var alarm time.Duration
		due, alarm = l.pass(due)
		for k, pk := range due {
			// a packet that the kernel does not take is lost, as on any network
			_ = l.devices[pk.to].write(pk.data)
			l.put(pk)
			due[k] = nil
		}
		timer.Reset(alarm - time.Since(l.began))
	}
}

// pass lets the fabric's time pass until now, and sets the alarm for what comes next.
func (l *Lab) pass(empty []*packet) (due []*packet, alarm time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Since(l.began)
	due = l.mu.fabric.deliver(now, empty)
	l.mu.alarm = never
	if at, ok := l.mu.fabric.next(); ok {
		l.mu.alarm = max(at, now+grain)
	}
	return due, l.mu.alarm
}

func (l *Lab) put(pk *packet) {
	pk.data, pk.next = nil, nil
	l.packets.Put(pk)
}
