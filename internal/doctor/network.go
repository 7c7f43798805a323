package doctor

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

func (v *View) bootstrap() Finding {
	b := v.Bootstrap
	reached := slices.ContainsFunc(v.Peers, func(p Peer) bool { return p.Error == "" })
	switch {
	case b.Answered && v.Node != "":
		return finding("bootstrap", OK, "the peer that runs here has found its run", "")
	case b.Answered:
		return finding("bootstrap", OK, "a bootstrap address answers", "")
	case len(b.Given) > 0 && reached:
		return finding("bootstrap", Warn, "no bootstrap address answers, but peers were found: "+b.Err,
			"newcomers may not find the run: give addresses of peers that run now")
	case len(b.Given) > 0 && !v.networked():
		return finding("bootstrap", Fail, "no bootstrap address answers: "+b.Err, noNetwork)
	case len(b.Given) > 0 && v.Ticket:
		return finding("bootstrap", Fail, "none of the ticket's addresses answers: "+b.Err,
			"if the run's peers have ended or have new addresses, ask a peer that runs for a new ticket (p2pdiloco "+
				"invite); otherwise check that this machine's firewall lets TCP and UDP out, and that theirs lets "+
				"them in")
	case len(b.Given) > 0:
		return finding("bootstrap", Fail, "no bootstrap address answers: "+b.Err,
			"check the addresses (a bootstrap node prints them, with its peer ID), and that the node runs and its "+
				"firewall lets its port in")
	case reached:
		return finding("bootstrap", OK, "not needed: peers were found on the local network, or were remembered", "")
	}
	return finding("bootstrap", Warn, "no address was given, and no peer was found on the local network",
		"give a ticket, or --bootstrap with the address of a bootstrap node or of any peer")
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
	switch {
	case len(behind) > 0:
		return finding("address", OK, fmt.Sprintf("others see this machine at %s, which it does not have itself: it "+
			"is behind NAT", strings.Join(behind, ", ")), "")
	case len(own) > 0:
		return finding("address", OK, "others see this machine at an address of its own: "+strings.Join(own, ", "), "")
	}
	switch {
	case !v.networked():
		return finding("address", Warn, "this machine has no address but loopback ones", noNetwork)
	case v.Bootstrap.Answered:
		return finding("address", Warn, "no peer has reported at which address it sees this machine",
			"the peers that answered report it only to members, or not at all: join, then run this again")
	}
	return finding("address", Warn, "no peer has reported yet at which address it sees this machine",
		"find peers first: see bootstrap")
}

const noNetwork = "connect this machine to a network: it can reach only itself now"

// networked says whether this machine has an address beyond loopback and link-local ones.
func (v *View) networked() bool {
	return slices.ContainsFunc(v.Own, func(ip netip.Addr) bool { return !ip.IsLoopback() && !ip.IsLinkLocalUnicast() })
}

// mapping says how the NAT maps UDP ports, which decides whether two peers behind NAT can punch a
// hole. It compares the ports at which two peers see one socket.
func (v *View) mapping() Finding {
	const check = "nat"
	ports := make(map[endpoint]bool)
	for _, a := range v.Mapped {
		if e, ok := parse(a); ok && !slices.Contains(v.Own, e.ip) {
			ports[endpoint{ip: e.ip, port: e.port}] = true
		}
	}
	behind := slices.ContainsFunc(v.seen(), func(ip netip.Addr) bool { return !slices.Contains(v.Own, ip) })
	switch {
	case !behind:
		return finding(check, OK, "no NAT was seen", "")
	case len(ports) > 1:
		return finding(check, Warn, fmt.Sprintf("the NAT gives one socket another port for each peer (%d "+
			"seen), so that holes cannot be punched", len(ports)),
			"forward a TCP and a UDP port in the router, and give --listen with that port; otherwise a relay carries "+
				"this peer's bytes to other peers behind NAT")
	case len(v.Mapped) > 1:
		return finding(check, OK, "the NAT keeps a socket's port for all peers: holes can be punched to peers "+
			"behind similar ones", "")
	}
	return finding(check, OK, "how the NAT maps ports is not known: that needs UDP answers from peers at two addresses",
		"")
}

func (v *View) reached() Finding {
	r := v.Reach
	const do = "forward a TCP and a UDP port in the router to this machine, --listen there and --announce the " +
		"router's address"
	switch {
	case r.Public && len(r.Tried) > 0:
		return finding("reach", OK, "others reach this peer at "+strings.Join(r.Tried, ", "), "")
	case r.Public:
		return finding("reach", OK, "other peers can connect to this one", "")
	case len(r.Tried) > 0 && len(r.Relays) > 0:
		return finding("reach", OK, fmt.Sprintf("others reach this peer at %s, and otherwise through %d relays",
			strings.Join(r.Tried, ", "), len(r.Relays)), "")
	case len(r.Tried) > 0:
		return finding("reach", Warn, fmt.Sprintf("others reach this peer at %s, except those with IPv4 only",
			strings.Join(r.Tried, ", ")), do+", or let a public peer or bootstrap node relay")
	case len(r.Relays) > 0 && len(r.Failed) == 0:
		return finding("reach", OK, fmt.Sprintf("%d relays lead to this peer; whether it can be reached directly is "+
			"not known yet", len(r.Relays)), "")
	case len(r.Relays) > 0:
		return finding("reach", Warn, fmt.Sprintf("others cannot reach this peer directly; %d relays lead to it",
			len(r.Relays)), do+": direct connections are faster")
	case len(r.Failed) > 0:
		return finding("reach", Warn, "others could not reach "+strings.Join(r.Failed, ", "),
			do+", or let a public peer or bootstrap node relay")
	}
	return finding("reach", OK, "no peer has tried to reach this one yet", "")
}

const slowTrip = 400 * time.Millisecond

// members has a finding for each peer, and one more if there is none or none answers.
func (v *View) members() (all []Finding) {
	failed, members := 0, 0
	for _, p := range v.Peers {
		if p.Member {
			members++
		}
		f := p.check()
		if f.Level == Fail {
			f.Level = Warn // the other members may suffice
			if p.Member {
				failed++
			}
		}
		all = append(all, f)
	}
	switch {
	case members == 0 && v.Run != "" && v.Slot.Members != 1 && v.Ticket:
		all = append(all, finding("members", Warn, "no peer of the ticket's run "+v.Run+" was found",
			"if the run goes on, ask one of its peers for a new ticket, and see bootstrap"))
	case members == 0 && v.Run != "" && v.Slot.Members != 1:
		all = append(all, finding("members", Warn, "no other peer of run "+v.Run+" was found",
			"check the run's name (the peers of a private run are found with a ticket only), and see bootstrap"))
	case failed > 0 && failed == members:
		all = append(all, finding("members", Fail, "no peer of the run can be reached",
			"check that this machine's firewall lets TCP and UDP out, and that the others run"))
	}
	return all
}

// check says how a peer is reached and how fast. The level is Fail if it is not reached.
func (p Peer) check() Finding {
	check := "peer " + p.ID[max(0, len(p.ID)-8):]
	if p.Error != "" {
		return finding(check, Fail, "no answer: "+strings.Join(strings.Fields(p.Error), " "),
			"if others reach it, both of you are behind NAT: one must open a port, or a relay must help")
	}
	e, _ := parse(p.Addr)
	way := map[string]string{"tcp": "TCP", "udp": "QUIC"}[e.proto]
	if e.relay {
		way = "a relay"
	}
	what := fmt.Sprintf("over %s, round trip %s, %s", way, short(p.RTT), p.speeds())
	switch {
	case e.relay:
		return finding(check, Warn, what, "relays are slow and have limits: open a port on one of the two sides")
	case p.RTT > slowTrip:
		return finding(check, Warn, what, "every slot takes some round trips, which is fine for long inner phases; "+
			"other "+
			"traffic may fill the link (limit this peer's with --max-upload)")
	}
	return finding(check, OK, what, "")
}

func (p Peer) speeds() string {
	if p.Up == 0 && p.Down == 0 {
		return "speed not measured (the peer answers few probes at a time)"
	}
	return fmt.Sprintf("%s up, %s down", bits(p.Up), bits(p.Down))
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
	var odd []string
	wrong := false
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
	for _, p := range v.Peers {
		if p.Error == "" && (p.Offset-median).Abs() > skewed {
			odd = append(odd, fmt.Sprintf("%s (%s)", p.ID[max(0, len(p.ID)-8):], short(p.Offset-median)))
			wrong = wrong || (p.Offset-median).Abs() > wrongBy
		}
	}
	level, what := OK, fmt.Sprintf("%s off those of the others", short(median.Abs()))
	if median.Abs() > skewed {
		level, what = Warn, fmt.Sprintf("this machine's clock is %s %s those of the others", short(median.Abs()),
			map[bool]string{true: "behind", false: "ahead of"}[median > 0])
	}
	if wrong {
		level = Warn
	}
	if len(odd) > 0 {
		what += "; the clocks of these peers differ from the rest: " + strings.Join(odd, ", ")
	}
	return finding("clock", level, what, "a run does not need clocks that agree, but logs are hard to compare and "+
		"tickets expire early or late: turn NTP on where the clock is wrong (timedatectl set-ntp true)"), true
}
