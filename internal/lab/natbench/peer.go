package natbench

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/api"
	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/nat"
	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
)

const askTimeout = 2 * time.Second

// peer is a `join` on a host of the world.
type peer struct {
	host   int
	kind   nat.Kind
	proc   *swarm.Process
	api    api.Address
	follow *eventlog.Follower

	id    string
	slots map[uint64]held // by slot
	last  uint64          // newest slot applied or fetched
	seen  statusDocument  // the newest that it gave
}

// held is what a peer's events say about a slot.
type held struct {
	root         string
	at           time.Time
	applied      bool // by itself; else its state was fetched from others
	contributors int
}

// statusDocument has the parts of a peer's status that are read here.
type statusDocument struct {
	Phase   p2pdiloco.Phase `json:"phase"`
	Sent    uint64          `json:"bytes_sent"`
	Members []memberPath    `json:"members"`
}

type memberPath struct {
	Peer string `json:"peer"`
	Path *path  `json:"path"` // nil: it is not reached, or the peer itself
}

// path is how a member is reached.
type path struct {
	Way       string    `json:"way"`
	Transport string    `json:"transport"`
	Relay     string    `json:"relay"`
	Since     time.Time `json:"since"`
}

// ask reads the peer's status. A peer that starts or has ended has none.
func (p *peer) ask(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var s statusDocument
	if _, err := api.Get(ctx, p.api, "", &s); err == nil {
		p.seen = s
	}
}

// way is how it reaches another peer; ok is false if it does not.
func (p *peer) way(to *peer) (w path, ok bool) {
	for _, m := range p.seen.Members {
		if to.id != "" && m.Peer == to.id && m.Path != nil {
			return *m.Path, true
		}
	}
	return w, false
}

// event has the parts of a line of a peer's events that are read here.
type event struct {
	Time         time.Time       `json:"time"`
	Event        string          `json:"event"`
	PeerID       string          `json:"peer_id"`
	Slot         uint64          `json:"slot"`
	StateRoot    string          `json:"state_root"`
	Contributors json.RawMessage `json:"contributors"`
}

// read takes the events since the last call.
func (p *peer) read() error {
	return p.follow.Next(func(line []byte) {
		var e event
		if json.Unmarshal(line, &e) == nil {
			p.note(e)
		}
	})
}

func (p *peer) note(e event) {
	h := p.slots[e.Slot]
	switch e.Event {
	case "peer.started":
		p.id = e.PeerID
		return
	case "slot.committed":
		var who []string
		if json.Unmarshal(e.Contributors, &who) == nil {
			h.contributors = len(who)
		}
	case "slot.applied", "state.synced":
		h.root, h.at, h.applied = e.StateRoot, e.Time, e.Event == "slot.applied"
		p.last = max(p.last, e.Slot)
	default:
		return
	}
	p.slots[e.Slot] = h
}

// failed returns an error if a peer that should run has ended.
func (p *peer) failed() error {
	if code, ended := p.proc.Exit(); ended {
		return fmt.Errorf("the %s peer ended with exit status %d; the end of its log:\n%s", p.kind, code,
			swarm.Tail(p.proc.Log))
	}
	return nil
}

// start starts a peer on a host, in a folder of its own.
func (b *bench) start(host int, dir, name string, boots []*daemon, args ...string) (*peer, error) {
	events, data := filepath.Join(dir, name+".events"), filepath.Join(dir, name)
	socket := "unix:" + filepath.Join(b.sockets, fmt.Sprintf("%d.sock", b.sequence()))
	p := &peer{host: host, kind: b.world.Kind(host), follow: eventlog.Follow(events), slots: make(map[uint64]held)}
	var err error
	if p.api, err = api.ParseAddress(socket); err != nil {
		return nil, err
	}
	args = append([]string{
		"join", "--preset", b.cfg.Preset, "--json", "--log-level", "info", "--events", events, "--data-dir", data,
		"--api", socket,
		"--inner-steps", "1", "--aggregator", "mean", "--outer-lr", "0.7", "--momentum", "0", "--held-out", "1",
		"--data", b.text,
	}, args...)
	for _, d := range boots {
		for _, a := range d.Addrs {
			args = append(args, "--bootstrap", a)
		}
	}
	p.proc, err = b.launch(host, dir, name, args...)
	return p, err
}
