package membership

import (
	"sync"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

const inputsAtOnce = 256 // messages that wait for the loop at most

// inputs is what waits for the loop.
type inputs struct {
	mu struct {
		sync.Mutex
		// The number of reports has no bound: they come from this process alone, a few for each
		// piece of work.
		reports  []Report
		messages []received
		closed   bool
	}
	ready chan struct{} // holds a token while something may wait
	room  *sync.Cond    // signalled when messages were taken
}

type received struct {
	via slot.PeerID
	wire.Message
}

func newInputs() *inputs {
	in := &inputs{ready: make(chan struct{}, 1)}
	in.room = sync.NewCond(&in.mu)
	return in
}

// message hands a verified message to the loop. It waits while there are as many as the loop takes
// at once. The inbox is the queue that is bounded fairly.
func (in *inputs) message(via slot.PeerID, m wire.Message) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for len(in.mu.messages) >= inputsAtOnce && !in.mu.closed {
		in.room.Wait()
	}
	in.mu.messages = append(in.mu.messages, received{via, m})
	in.signal()
}

func (in *inputs) report(r Report) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.mu.closed {
		return
	}
	// Only the newest progress counts.
	if n := len(in.mu.reports); n > 0 {
		_, now := r.(ReportProgress)
		if _, before := in.mu.reports[n-1].(ReportProgress); now && before {
			in.mu.reports[n-1] = r
			return
		}
	}
	in.mu.reports = append(in.mu.reports, r)
	in.signal()
}

func (in *inputs) signal() {
	select {
	case in.ready <- struct{}{}:
	default:
	}
}

func (in *inputs) drain() ([]Report, []received) {
	in.mu.Lock()
	defer in.mu.Unlock()
	reports, messages := in.mu.reports, in.mu.messages
	in.mu.reports, in.mu.messages = nil, nil
	in.room.Broadcast()
	return reports, messages
}

func (in *inputs) close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.mu.closed = true
	in.room.Broadcast()
}
