package doctor

import (
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// View is what is known of the connections to other peers.
type View struct {
	Run string `json:"run,omitempty"`
	// the running peer that was asked; empty: none runs, and a new identity looked instead
	Node      string       `json:"node,omitempty"`
	Bootstrap Bootstrap    `json:"bootstrap"`
	Addrs     []string     `json:"addrs"` // that others get to know
	Own       []netip.Addr `json:"-"`     // of this machine's interfaces
	// whether the addresses and the run's name come from a ticket
	Ticket bool     `json:"-"`
	Reach  *Reach   `json:"reach,omitempty"` // nil: no peer has tried
	Mapped []string `json:"mapped,omitempty"`
	Peers  []Peer   `json:"peers"`
	Slot   Slot     `json:"slot"`
	// of this machine while it was probed: processes that run or wait for a core; 0: unknown
	Load float64 `json:"load,omitempty"`
}

// Bootstrap says whether the bootstrap addresses answer.
type Bootstrap struct {
	Given    []string `json:"given"`
	Answered bool     `json:"answered"`
	Err      string   `json:"error,omitempty"`
}

// Reach is what other peers found when they tried to reach this peer.
type Reach struct {
	Public bool          `json:"public"`
	Tried  []string      `json:"tried,omitempty"`  // public addresses that were reached
	Failed []string      `json:"failed,omitempty"` // public addresses that were not reached
	Relays []slot.PeerID `json:"relays,omitempty"` // through which this peer can be reached
}

// Peer is one other peer and the connection to it.
type Peer struct {
	ID     string `json:"peer"`
	Member bool   `json:"member"`
	Error  string `json:"error,omitempty"` // why it was not probed
	Probe
}

// Probe is p2p.Probe: what a probe of the connection showed.
type Probe struct {
	RTT      time.Duration `json:"rtt_ns"`
	Offset   time.Duration `json:"offset_ns"` // of its clock against this machine's
	Up       float64       `json:"up"`        // bytes a second from here to there; 0: unknown
	Down     float64       `json:"down"`
	Observed string        `json:"observed,omitempty"`
	Addr     string        `json:"addr"` // the multiaddr at which it is reached
}

// Slot is what a round exchanges, and the time of its inner steps. Zero means not known.
type Slot struct {
	Bytes   uint64        `json:"bytes"` // of the encoded model
	Codec   string        `json:"codec,omitempty"`
	Members int           `json:"members"`           // this peer among them
	Steps   uint64        `json:"inner_steps"`       // of a round
	Step    time.Duration `json:"step_ns,omitempty"` // of the slowest member that reports it
	// the exchange runs beside the next inner steps
	Beside  bool          `json:"beside"`
	Takes   time.Duration `json:"takes_ns,omitempty"` // expected; Check fills it in
	Slowest string        `json:"slowest,omitempty"`  // the peer with the slowest connection
	Slow    float64       `json:"slow_bps,omitempty"` // bytes a second of that connection
	Inner   time.Duration `json:"inner_ns,omitempty"` // the inner phase
}

// Check compares the view with what a run needs. It fills in the expected times of v.Slot.
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

// parse reads the parts of a multiaddr that are needed here; ok is false if it has no IP address.
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
