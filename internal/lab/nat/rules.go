package nat

import "strings"

// Devices of a router: the outer one leads to the internet or to the carrier, inner ones to hosts.
const (
	internetDevice = "lab0" // as package lab calls it
	carrierDevice  = "wan0" // of a home router behind a carrier's
)

// rules are the rules of a router, for `nft -f`. outer is its device towards the internet; all
// other devices lead inside.
func rules(k Kind, outer string) string {
	masquerade, inwards, leaving := "masquerade", "", ""
	switch k {
	case Symmetric:
		// no two connections of one port of the host have the same mapping
		masquerade = "masquerade random,fully-random"
	case FullCone:
		inwards, leaving = fullCone, "iifname != $outer update @mapped { meta l4proto . th sport : ip saddr }"
	case NoUDP:
		leaving = "meta l4proto udp drop"
	case Public, PortRestricted, DoubleNAT: // as Linux does it
	}
	r := strings.NewReplacer("OUTER", outer, "INWARDS", inwards, "LEAVING", leaving, "MASQUERADE", masquerade)
	return r.Replace(router)
}

// router drops packets that no host inside asked for. It does so in the input chain as well: a
// dropped packet leaves no trace in conntrack, while a stray packet that is let in would take the
// mapping that a host inside needs for its answer.
const router = `
define outer = "OUTER"
table ip router {
	INWARDS
	chain outwards {
		type nat hook postrouting priority srcnat
		oifname $outer MASQUERADE
	}
	chain input {
		type filter hook input priority filter; policy drop
		iifname != $outer accept
	}
	chain forward {
		type filter hook forward priority filter; policy drop
		LEAVING
		ct state established,related accept
		iifname != $outer accept
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
		iifname $outer dnat to meta l4proto . th dport map @mapped
	}
`
