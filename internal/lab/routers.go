package lab

import "strings"

// A Site says how its host is connected to the internet.
type Site string

// The kinds, from the easiest to reach to the hardest.
const (
	Public         Site = "public"
	FullCone       Site = "full-cone"
	PortRestricted Site = "port-restricted"
	Symmetric      Site = "symmetric"
	NoUDP          Site = "no-udp"
)

// routerRules are the rules of a router, for `nft -f`. Its device lab0 leads to the internet, all
// others inside.
func routerRules(k Site) string {
	masquerade, inwards, leaving := "masquerade", "", ""
	switch k {
	case Symmetric:
		// no two connections of one port of the host have the same mapping
		masquerade = "masquerade random,fully-random"
	case FullCone:
		inwards, leaving = fullCone, "iifname != lab0 update @mapped { meta l4proto . th sport : ip saddr }"
	case NoUDP:
		leaving = "meta l4proto udp drop"
	case Public, PortRestricted: // as Linux does it
	}
	return strings.NewReplacer("INWARDS", inwards, "LEAVING", leaving, "MASQUERADE", masquerade).Replace(routerFrame)
}

// routerFrame drops packets that no host inside asked for. It does so in the input chain as well: a
// dropped packet leaves no trace in conntrack, while a stray packet that is let in would take the
// mapping that a host inside needs for its answer.
const routerFrame = `
table ip router {
	INWARDS
	chain outwards {
		type nat hook postrouting priority srcnat
		oifname lab0 MASQUERADE
	}
	chain input {
		type filter hook input priority filter; policy drop
		iifname != lab0 accept
	}
	chain forward {
		type filter hook forward priority filter; policy drop
		LEAVING
		ct state established,related accept
		iifname != lab0 accept
		ct status dnat accept
	}
}
`

// fullCone forwards packets from any sender to the host that has sent from their port.
const fullCone = `
	map mapped {
		type inet_proto . inet_service : ipv4_addr
		flags dynamic,timeout
		timeout 5m
		size 65535
	}
	chain inwards {
		type nat hook prerouting priority dstnat
		iifname lab0 dnat to meta l4proto . th dport map @mapped
	}
`
