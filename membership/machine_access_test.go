package membership

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cockroachdb/datadriven"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// labKeys is a peer's ring of secrets, by their names, on its disk.
type labKeys struct {
	held map[slot.Root]bool
	made int
	deaf bool      // gets none from others
	own  slot.Root // the next one, if this peer leads
	now  slot.Root // in force
}

// keyName is the text that a secret's name is the hash of.
func (l *lab) keyName(key slot.Root) string {
	for _, p := range l.peers {
		for i := range p.keys.made + 1 {
			if name := fmt.Sprintf("%s%d", p.name, i); slot.Hash([]byte(name)) == key {
				return name
			}
		}
	}
	return "founder's"
}

// makeKey gets a secret ready that nobody else knows.
func (p *labPeer) makeKey() {
	k := &p.keys
	if k.held == nil {
		k.held = map[slot.Root]bool{}
	}
	if p.lab.rules.Private && (k.own.IsZero() || k.own == k.now) {
		k.made++
		k.own = slot.Hash(fmt.Appendf(nil, "%s%d", p.name, k.made))
		k.held[k.own] = true
	}
	if !k.own.IsZero() {
		p.report(ReportKey{k.own})
	}
}

// fetchKey gets a secret from a peer within reach that has it, and does not refuse it to this peer.
func (p *labPeer) fetchKey(key slot.Root, from []slot.PeerID) bool {
	if key.IsZero() || p.keys.held[key] {
		return true
	}
	for _, id := range from {
		q := p.lab.peer(labName(id))
		if q == nil || q == p || !p.lab.reaches(p, q) || !q.keys.held[key] {
			continue
		}
		if s := q.m.Access(p.id); s.Ever && !s.Barred {
			p.keys.held[key] = true
			return true
		}
	}
	return false
}

// holdKey answers a draft that brings a secret.
func (p *labPeer) holdKey(w WorkHold) {
	if !p.keys.deaf && p.fetchKey(w.Draft.Key, w.From) {
		p.report(ReportHeld{Ref: w.Draft.Ref, Outcome: w.Draft.Outcome()})
	} else {
		p.report(ReportFailed{Work: w, Err: "nobody gives the secret"})
	}
}

// turnKey brings a secret in force.
func (p *labPeer) turnKey(w WorkAccess) {
	if !p.fetchKey(w.Key, w.From) {
		p.report(ReportFailed{Work: w, Err: "nobody gives the secret"})
		return
	}
	p.keys.now = w.Key
	p.makeKey()
}

// want gives orders: want A B remove=C,D readmit=E rotate; nothing else is wanted then.
func (l *lab) want(d *datadriven.TestData) {
	actions := map[string]slot.Action{"remove": slot.Remove, "readmit": slot.Readmit}
	for _, p := range l.named(d) {
		var r ReportMotions
		for _, a := range d.CmdArgs {
			for _, v := range a.Vals {
				if action, ok := actions[a.Key]; ok {
					r.Motions = append(r.Motions,
						slot.Motion{Action: action, Peer: labID(v), Turn: p.m.Access(labID(v)).Turn})
				}
			}
			if a.Key == "rotate" {
				r.Motions = append(r.Motions, slot.Motion{Action: slot.Rotate, Turn: p.m.Access("").Turn})
			}
		}
		p.want(r.Motions...)
	}
}

// want is an operator's word: it stands over restarts.
func (p *labPeer) want(orders ...slot.Motion) {
	p.wants = orders
	p.report(ReportMotions{orders})
}

// showAccess shows the removed peers, the secret that each peer uses, and what is wanted.
func (l *lab) showAccess() string {
	var out strings.Builder
	for _, p := range l.peers {
		if !p.up() {
			continue
		}
		v := p.m.View()
		fmt.Fprintf(&out, "%s removed=%s", p.name, labNames(v.Removed))
		if l.rules.Private {
			fmt.Fprintf(&out, " secret=%s uses=%s", l.keyName(v.Key), l.keyName(p.keys.now))
		}
		for _, o := range v.Motions {
			fmt.Fprintf(&out, " %s-%s by=%s", o.Action, labName(o.Peer), labNames(o.By))
			if o.Enough {
				out.WriteString("!")
			}
		}
		out.WriteByte('\n')
	}
	return out.String()
}

func decisionText(r slot.Record) string {
	var parts []string
	for _, d := range r.Decisions {
		var by []slot.PeerID
		for _, o := range d.Motions {
			by = append(by, o.Peer)
		}
		parts = append(parts, fmt.Sprintf("%s %s turn=%d by=%s\n", d.Action, labName(d.Peer), d.Turn, labNames(by)))
	}
	return strings.Join(parts, "")
}

// heldBy lists the peers that have a secret on disk.
func (l *lab) heldBy(key slot.Root) (names []string) {
	for _, p := range l.peers {
		if slices.Contains(slices.Collect(maps.Keys(p.keys.held)), key) {
			names = append(names, p.name)
		}
	}
	return names
}
