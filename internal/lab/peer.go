package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/api"
	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
)

// askTimeout is how long a peer has to give its status. One that is stopped gives none.
const askTimeout = 2 * time.Second

// Peer is one peer, through all its processes. Its methods but Ask are for one goroutine.
type Peer struct {
	*Process          // the newest; nil before the first
	Data     string   // its data directory
	ID       string   // as its newest process reported it
	Addrs    []string // the same
	API      string   // address of its status API
	// program and command that its processes are, with what comes before all flags: the swarm's
	// program, and join, unless it is changed
	Words  []string
	Env    []string // what its processes have in their environment beside what this one has
	site   int
	events *eventlog.Follower
}

// NewPeer is a peer for a site, without a process. Its files are in dir, and have its name.
func (s *Swarm) NewPeer(site int, dir, name string) *Peer {
	data := filepath.Join(dir, name)
	p := &Peer{
		site: site, Data: data, events: eventlog.Follow(data + ".events"),
		Words: []string{s.setting.Executable, "join"},
		API:   "unix:" + filepath.Join(s.sockets, fmt.Sprintf("%d.sock", len(s.peers)+1)),
	}
	s.peers = append(s.peers, p)
	return p
}

// Join starts a process of the peer in a run, with more args, knowing bootstrap nodes.
func (s *Swarm) Join(p *Peer, run string, bootstrap []string, args ...string) (err error) {
	args = slices.Concat(p.Words[1:], []string{
		"--run", run, "--json", "--events", p.Data + ".events", "--data-dir", p.Data, "--api", p.API,
	}, args)
	for _, a := range bootstrap {
		args = append(args, "--bootstrap", a)
	}
	cmd := Command(s.testbed, p.site, p.Words[0], args...)
	if len(p.Env) > 0 {
		cmd.Env = append(sources.Clean(cmd.Environ()), p.Env...)
	}
	p.Process, err = s.Start(cmd, filepath.Dir(p.Data), filepath.Base(p.Data))
	return err
}

// Read passes on the events since the last call.
func (p *Peer) Read(observe func(eventlog.Line)) error {
	return p.events.Next(func(b []byte) {
		e, err := eventlog.Parse(b)
		if err != nil {
			return
		}
		if e.Event == "peer.started" {
			p.ID, p.Addrs = e.PeerID, e.Addrs
		}
		observe(e)
	})
}

// Ask asks the peer for its status, which is also returned as it came. A peer that starts, is
// stopped or has ended gives none.
func (p *Peer) Ask(ctx context.Context) (status p2pdiloco.Status, raw []byte, err error) {
	addr, err := api.ParseAddress(p.API)
	if err != nil {
		return status, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	raw, err = api.Client{Addr: addr}.Get(ctx, &status)
	return status, raw, err
}

// Report is what the newest process printed at its end; ok is false if it did not come so far.
func (p *Peer) Report() (r eventlog.Peer, ok bool) {
	if p.Process == nil {
		return r, false
	}
	b, err := os.ReadFile(p.Stdout)
	return r, err == nil && json.Unmarshal(b, &r) == nil
}

// Failure is an error with the end of the log if the newest process has ended.
func (p *Peer) Failure() error {
	if p.Process == nil {
		return nil
	}
	code, ended := p.Exit()
	if !ended {
		return nil
	}
	return fmt.Errorf("%s ended with exit status %d; the end of its log:\n%s", filepath.Base(p.Data), code,
		Tail(p.Log))
}
