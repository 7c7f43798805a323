package doctor

import (
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

const letThrough = "check that this machine's firewall lets TCP and UDP out, and that "

func (v *View) bootstrap() Finding {
	b := v.Bootstrap
	reached := slices.ContainsFunc(v.Peers, func(p Peer) bool { return p.Error == "" })
	given, none := len(b.Given) > 0, "no bootstrap address answers: "+b.Err
	return table("bootstrap",
		row{b.Answered && v.Node != "", OK, "the peer that runs here has found its run", ""},
		row{b.Answered, OK, "a bootstrap address answers", ""},
		row{
			given && reached, Warn, "no bootstrap address answers, but peers were found: " + b.Err,
			"newcomers may not find the run: give addresses of peers that run now",
		},
		row{given && !v.networked(), Fail, none, noNetwork},
		row{
			given && v.Ticket, Fail, "none of the ticket's addresses answers: " + b.Err,
			"if the run's peers have ended or have new addresses, ask a peer that runs for a new ticket (p2pdiloco " +
				"invite); otherwise " + letThrough + "theirs lets them in",
		},
		row{
			given, Fail, none, "check the addresses (a bootstrap node prints them, with its peer ID), and that the " +
				"node runs and its firewall lets its port in",
		},
		row{reached, OK, "not needed: peers were found on the local network, or were remembered", ""},
		row{
			true, Warn, "no address was given, and no peer was found on the local network",
			"give a ticket, or --bootstrap with the address of a bootstrap node or of any peer",
		},
	)
}

// seen are the IP addresses at which others see this peer.
func (v *View) seen() (ips []netip.Addr) {
	observed := slices.Clone(v.Mapped)
	for _, p := range v.Peers {
		observed = append(observed, p.Observed)
	}
	for _, a := range observed {
		if e, ok := parse(a); ok && !e.relay && !slices.Contains(ips, e.ip) {
			ips = append(ips, e.ip)
		}
	}
	slices.SortFunc(ips, netip.Addr.Compare)
	return ips
}

func (v *View) addresses() Finding {
	var own, behind []string
	for _, ip := range v.seen() {
		if slices.Contains(v.Own, ip) {
			own = append(own, ip.String())
		} else {
			behind = append(behind, ip.String())
		}
	}
	return table("address",
		row{len(behind) > 0, OK, fmt.Sprintf("others see this machine at %s, which it does not have itself: it is "+
			"behind NAT", strings.Join(behind, ", ")), ""},
		row{len(own) > 0, OK, "others see this machine at an address of its own: " + strings.Join(own, ", "), ""},
		row{!v.networked(), Warn, "this machine has no address but loopback ones", noNetwork},
		row{
			v.Bootstrap.Answered, Warn, "no peer has reported at which address it sees this machine",
			"the peers that answered report it only to members, or not at all: join, then run this again",
		},
		row{
			true, Warn, "no peer has reported yet at which address it sees this machine",
			"find peers first: see bootstrap",
		},
	)
}

const noNetwork = "connect this machine to a network: it can reach only itself now"

// networked says whether this machine has an address beyond loopback and link-local ones.
func (v *View) networked() bool {
	return slices.ContainsFunc(v.Own, func(ip netip.Addr) bool { return !ip.IsLoopback() && !ip.IsLinkLocalUnicast() })
}

// mapping says how the NAT maps UDP ports, which decides whether two peers behind NAT can punch a
// hole. It compares the ports at which two peers see one socket.
func (v *View) mapping() Finding {
	ports := make(map[endpoint]bool)
	for _, a := range v.Mapped {
		if e, ok := parse(a); ok && !slices.Contains(v.Own, e.ip) {
			ports[endpoint{ip: e.ip, port: e.port}] = true
		}
	}
	behind := slices.ContainsFunc(v.seen(), func(ip netip.Addr) bool { return !slices.Contains(v.Own, ip) })
	return table("nat",
		row{!behind, OK, "no NAT was seen", ""},
		row{
			len(ports) > 1, Warn, fmt.Sprintf("the NAT gives one socket another port for each peer (%d seen), so that "+
				"holes cannot be punched", len(ports)),
			"forward a TCP and a UDP port in the router, and give --listen with that port; otherwise a relay carries " +
				"this peer's bytes to other peers behind NAT",
		},
		row{len(v.Mapped) > 1, OK, "the NAT keeps a socket's port for all peers: holes can be punched to peers " +
			"behind similar ones", ""},
		row{
			true, OK, "how the NAT maps ports is not known: that needs UDP answers from peers at two addresses", "",
		},
	)
}

func (v *View) reached() Finding {
	const do = "forward a TCP and a UDP port in the router to this machine, --listen there and --announce the " +
		"router's address"
	const relay = do + ", or let a public peer or bootstrap node relay"
	r := v.Reach
	tried, relays := strings.Join(r.Tried, ", "), len(r.Relays)
	return table("reach",
		row{r.Public && tried != "", OK, "others reach this peer at " + tried, ""},
		row{r.Public, OK, "other peers can connect to this one", ""},
		row{
			tried != "" && relays > 0, OK,
			fmt.Sprintf("others reach this peer at %s, and otherwise through %d relays", tried, relays), "",
		},
		row{tried != "", Warn, "others reach this peer at " + tried + ", except those with IPv4 only", relay},
		row{relays > 0 && len(r.Failed) == 0, OK, fmt.Sprintf("%d relays lead to this peer; whether it can be reached "+
			"directly is not known yet", relays), ""},
		row{
			relays > 0, Warn, fmt.Sprintf("others cannot reach this peer directly; %d relays lead to it", relays),
			do + ": direct connections are faster",
		},
		row{len(r.Failed) > 0, Warn, "others could not reach " + strings.Join(r.Failed, ", "), relay},
		row{true, OK, "no peer has tried to reach this one yet", ""},
	)
}

const slowTrip = 400 * time.Millisecond

// members has a finding for each peer, and one more if there is none or none answers.
func (v *View) members() (all []Finding) {
	failed, members, load := 0, 0, ""
	if v.Load > 0 {
		load = fmt.Sprintf(", measured under a load of %.1f on %d cores", v.Load, runtime.NumCPU())
	}
	for _, p := range v.Peers {
		if p.Member {
			members++
		}
		f := p.check(load)
		if f.Level == Fail {
			f.Level = Warn // the other members may suffice
			if p.Member {
				failed++
			}
		}
		all = append(all, f)
	}
	alone := members == 0 && v.Run != "" && v.Slot.Members != 1
	f := table("members",
		row{
			alone && v.Ticket, Warn, "no peer of the ticket's run " + v.Run + " was found",
			"if the run goes on, ask one of its peers for a new ticket, and see bootstrap",
		},
		row{
			alone, Warn, "no other peer of run " + v.Run + " was found",
			"check the run's name (the peers of a private run are found with a ticket only), and see bootstrap",
		},
		row{
			failed > 0 && failed == members, Fail, "no peer of the run can be reached", letThrough + "the others run",
		},
		row{holds: true},
	)
	if f.Level != "" {
		all = append(all, f)
	}
	return all
}

// check says how a peer is reached and how fast, measured under a load. The level is Fail if it is
// not reached.
func (p Peer) check(load string) Finding {
	check := "peer " + p.ID[max(0, len(p.ID)-8):]
	if p.Error != "" {
		return Found(check, Fail, "no answer: "+strings.Join(strings.Fields(p.Error), " "),
			"if others reach it, both of you are behind NAT: one must open a port, or a relay must help")
	}
	e, _ := parse(p.Addr)
	way := map[string]string{"tcp": "TCP", "udp": "QUIC"}[e.proto]
	if e.relay {
		way = "a relay"
	}
	speeds := "speed not measured (the peer answers few probes at a time)"
	if p.Up > 0 || p.Down > 0 {
		speeds = fmt.Sprintf("%s up, %s down%s", bits(p.Up), bits(p.Down), load)
	}
	what := fmt.Sprintf("over %s, round trip %s, %s", way, short(p.RTT), speeds)
	return table(check,
		row{e.relay, Warn, what, "relays are slow and have limits: open a port on one of the two sides"},
		row{p.RTT > slowTrip, Warn, what, "every slot takes some round trips, which is fine for long inner phases; " +
			"other traffic may fill the link (limit this peer's with --max-upload)"},
		row{true, OK, what, ""},
	)
}

// bits is a rate in bits, as network providers give it.
func bits(bytesPerSecond float64) string {
	return humanize.SIWithDigits(8*bytesPerSecond, 1, "bit/s")
}

const (
	skewed  = 5 * time.Second
	wrongBy = time.Minute // from here on a clock is in the way of people
)

// clock compares this machine's clock with the median of others, and each of theirs.
func (v *View) clock() (f Finding, ok bool) {
	var offsets []time.Duration
	for _, p := range v.Peers {
		if p.Error == "" {
			offsets = append(offsets, p.Offset)
		}
	}
	if len(offsets) == 0 {
		return f, false
	}
	slices.Sort(offsets)
	median := offsets[len(offsets)/2]
	wrong, what := median.Abs() > skewed, short(median.Abs())+" off those of the others"
	if wrong {
		what = fmt.Sprintf("this machine's clock is %s %s those of the others", short(median.Abs()),
			map[bool]string{true: "behind", false: "ahead of"}[median > 0])
	}
	between := "; the clocks of these peers differ from the rest: "
	for _, p := range v.Peers {
		if off := p.Offset - median; p.Error == "" && off.Abs() > skewed {
			what += fmt.Sprintf("%s%s (%s)", between, p.ID[max(0, len(p.ID)-8):], short(off))
			between, wrong = ", ", wrong || off.Abs() > wrongBy
		}
	}
	return Found("clock", levelOf(false, wrong), what, "a run does not need clocks that agree, but logs are hard to "+
		"compare and tickets expire early or late: turn NTP on where the clock is wrong (timedatectl set-ntp "+
		"true)"), true
}
