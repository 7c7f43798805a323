package doctor

import (
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// View is what is known of the ways to others.
type View struct {
	Run       string       `json:"run,omitempty"`
	Node      string       `json:"node,omitempty"` // the running peer that was asked; empty: none runs, and its view is a new identity's
	Bootstrap Bootstrap    `json:"bootstrap"`
	Addrs     []string     `json:"addrs"`           // that others are told
	Own       []netip.Addr `json:"-"`               // of this machine's interfaces
	Ticket    bool         `json:"-"`               // the addresses and the run's name are a ticket's
	Reach     *Reach       `json:"reach,omitempty"` // nil: nobody has tried
	Mapped    []string     `json:"mapped,omitempty"`
	Peers     []Peer       `json:"peers"`
	Slot      Slot         `json:"slot"`
}

// Bootstrap says how the bootstrap addresses do.
type Bootstrap struct {
	Given    []string `json:"given"`
	Answered bool     `json:"answered"`
	Err      string   `json:"error,omitempty"`
}

// Reach is what others found who tried to reach this peer.
type Reach struct {
	Public bool     `json:"public"`
	Tried  []string `json:"tried,omitempty"`  // public addresses that were reached
	Failed []string `json:"failed,omitempty"` // and that were not
	Relays []string `json:"relays,omitempty"` // through which it can be reached
}

// Peer is one other peer and the way to it.
type Peer struct {
	ID       string        `json:"peer"`
	Member   bool          `json:"member"`
	Error    string        `json:"error,omitempty"` // why it was not probed
	Addr     string        `json:"addr,omitempty"`  // multiaddr that it is reached at
	Observed string        `json:"observed,omitempty"`
	RTT      time.Duration `json:"rtt_ns,omitempty"`
	Offset   time.Duration `json:"offset_ns,omitempty"` // of its clock against this one's
	Up       float64       `json:"up,omitempty"`        // bytes a second from here to there; 0: unknown
	Down     float64       `json:"down,omitempty"`
}

// Slot is what a round exchanges, and what it is held against. Zero: not known.
type Slot struct {
	Bytes   uint64        `json:"bytes"` // of the model as it travels
	Codec   string        `json:"codec,omitempty"`
	Members int           `json:"members"`            // this peer among them
	Steps   uint64        `json:"inner_steps"`        // of a round
	Step    time.Duration `json:"step_ns,omitempty"`  // of the slowest member that says
	Beside  bool          `json:"beside"`             // the exchange runs beside the next inner steps
	Takes   time.Duration `json:"takes_ns,omitempty"` // expected; Check fills it in
	Slowest string        `json:"slowest,omitempty"`  // the peer whose way is
	Slow    float64       `json:"slow_bps,omitempty"` // bytes a second of that way
	Inner   time.Duration `json:"inner_ns,omitempty"` // the inner phase
}

// Check holds the view against what a run needs. It fills in what is expected of a slot.
func (v *View) Check() []Finding {
	all := []Finding{v.bootstrap(), v.addresses(), v.mapping()}
	if v.Reach != nil {
		all = append(all, v.reached())
	}
	all = append(all, v.members()...)
	if f, ok := v.clock(); ok {
		all = append(all, f)
	}
	if f, ok := v.slot(); ok {
		all = append(all, f)
	}
	return all
}

// endpoint is where a multiaddr points.
type endpoint struct {
	ip    netip.Addr
	proto string // tcp or udp
	port  int
	relay bool
}

// parse reads as much of a multiaddr as is needed here; ok is false where it names no IP address.
func parse(addr string) (e endpoint, ok bool) {
	parts := strings.Split(addr, "/")
	for i := 1; i+1 < len(parts); i++ {
		switch parts[i] {
		case "ip4", "ip6":
			if ip, err := netip.ParseAddr(parts[i+1]); err == nil && !e.ip.IsValid() {
				e.ip = ip
			}
		case "tcp", "udp":
			if port, err := strconv.Atoi(parts[i+1]); err == nil && e.proto == "" {
				e.proto, e.port = parts[i], port
			}
		}
	}
	e.relay = strings.Contains(addr, "/p2p-circuit")
	return e, e.ip.IsValid()
}
