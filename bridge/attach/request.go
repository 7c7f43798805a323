package attach

import (
	"time"

	"github.com/p2pdiloco/p2pdiloco/bridge/attach/wire"
)

// request is what the node has asked of all ranks.
type request struct {
	id      uint64
	message wire.Message
	answers map[uint64]wire.Message // by rank

	// of TRAIN
	began  time.Time
	giveUp bool               // the next rank that comes to a new look is told so
	looks  map[uint64]wire.Go // what was answered, by the steps done
	next   uint64             // the newest look
}

// Ask sends a request to all ranks and returns its id. There is none (ok is false) while no set
// shares the memory of that epoch. Only one request may be under way.
func (b *Box) Ask(now time.Time, epoch uint64, m wire.Message) (id uint64, effects []Effect, ok bool) {
	if b.set == nil || !b.set.shares || b.epoch != epoch {
		return 0, nil, false
	}
	if b.request != nil {
		panic("box: a second request while one is under way")
	}
	b.lastID++
	r := &request{
		id: b.lastID, message: m, answers: make(map[uint64]wire.Message), began: now,
		looks: make(map[uint64]wire.Go),
	}
	if t, ok := m.(*wire.Train); ok && t.Steps > 1 {
		t.Look, r.next = 1, 1
	}
	b.request = r
	b.set.heard(now)
	for _, rank := range b.set.sorted() {
		effects = append(effects, Send{rank.conn, r.id, m})
	}
	return r.id, effects, true
}

// GiveUp has a TRAIN end at the next step that no rank has asked at.
func (b *Box) GiveUp(id uint64) {
	if b.request != nil && b.request.id == id {
		b.request.giveUp = true
	}
}

// answer takes in a rank's answer. The last one completes the request.
func (b *Box) answer(r *rank, id uint64, m wire.Message) []Effect {
	q := b.request
	if q == nil || q.id != id || q.answers[r.number] != nil {
		return b.Dismiss(*fault(wire.CodeProtocol, "%v with id %d from rank %d: no such request waits for it",
			wire.TypeOf(m), id, r.number))
	}
	_, trains := q.message.(*wire.Train)
	if offer, ok := m.(*wire.Offer); ok != trains || ok && offer.Steps > q.message.(*wire.Train).Steps {
		return b.Dismiss(*fault(wire.CodeProtocol, "%v from rank %d does not answer %v", wire.TypeOf(m), r.number,
			wire.TypeOf(q.message)))
	}
	q.answers[r.number] = m
	if uint64(len(q.answers)) < b.set.world {
		return nil
	}
	b.request = nil
	answers := make([]wire.Message, b.set.world)
	for number, a := range q.answers {
		answers[number] = a
	}
	if f := apart(q, answers); f != nil {
		return b.Dismiss(*f)
	}
	return []Effect{Answered{q.id, answers}}
}

// apart finds ranks that did different numbers of steps: their models have come apart.
func apart(q *request, answers []wire.Message) *Fault {
	if _, ok := q.message.(*wire.Train); !ok {
		return nil
	}
	first := answers[0].(*wire.Offer).Steps
	for number, a := range answers {
		if steps := a.(*wire.Offer).Steps; steps != first {
			return fault(wire.CodeProtocol, "rank 0 has done %d steps and rank %d %d: all ranks must do the same "+
				"number", first, number, steps)
		}
	}
	return nil
}

// decideLook answers a rank that has come to a look. The first that comes decides for all.
func (b *Box) decideLook(now time.Time, r *rank, id uint64, m *wire.At) []Effect {
	q := b.request
	if q == nil || q.id != m.Train || q.answers[r.number] != nil {
		return b.Dismiss(*fault(wire.CodeProtocol, "AT of rank %d for a TRAIN %d that is not under way", r.number,
			m.Train))
	}
	answer, decided := q.looks[m.Steps]
	if !decided {
		if m.Steps != q.next || m.Steps == 0 {
			return b.Dismiss(*fault(wire.CodeProtocol, "AT of rank %d after %d steps: the look was %d", r.number,
				m.Steps, q.next))
		}
		answer = q.decide(now, m.Steps, b.cfg.Looks)
		q.looks[m.Steps] = answer
	}
	return []Effect{Send{r.conn, id, &answer}}
}

// decide gives up, or goes on to a look that is about a time of looks away.
func (q *request) decide(now time.Time, steps uint64, looks time.Duration) wire.Go {
	q.next = 0
	if q.giveUp {
		return wire.Go{Answer: wire.GiveUp}
	}
	more := uint64(1)
	if took := now.Sub(q.began); took > 0 && looks > 0 {
		more = max(1, uint64(float64(steps)*float64(looks)/float64(took)))
	}
	if look := steps + more; look < q.message.(*wire.Train).Steps {
		q.next = look
	}
	return wire.Go{Look: q.next}
}
