package p2pdiloco

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership"
)

// Orders are what this peer's operator wants done about who may be in the run. One peer's order does nothing: once the operators of a quorum of the
// members have given the same one, a record carries it out. Orders stand until then, over restarts, in a file.

// ordersFile is in the data directory, a line for each order: action, peer (- for none), turn.
const ordersFile = "orders"

// maxOrdersFile bounds what is read of it, in bytes.
const maxOrdersFile = 4 << 10

// ErrRemoved is what a node ends with that the members have removed from the run.
var ErrRemoved = errors.New("p2pdiloco: the members have removed this peer from the run: it can take part again once a quorum of them has readmitted it (p2pdiloco readmit PEER)")

// ErrOrder is wrapped by the reasons why an order cannot be given.
var ErrOrder = errors.New("p2pdiloco: the order cannot be given")

// Remove asks the members to remove a peer from the run: it is no member any more and cannot become one. In a private run the admission secret
// changes with it, which voids the tickets given out so far. It happens once a quorum of the members, the peer itself counted, has asked for it.
func (n *Node) Remove(p PeerID) error {
	switch {
	case p == n.Self():
		return fmt.Errorf("%w: this is the peer itself: it can leave (stop its process)", ErrOrder)
	case len(p) < slot.MinPeerIDLen:
		return fmt.Errorf("%w: %q is no peer ID, like 12D3Koo…", ErrOrder, p)
	}
	return n.order(slot.Remove, p)
}

// Readmit takes back a removal that this peer has asked for, or asks the members to let a removed peer in again.
func (n *Node) Readmit(p PeerID) error { return n.order(slot.Readmit, p) }

// RotateSecret asks the members for another admission secret, which voids the tickets given out so far.
func (n *Node) RotateSecret() error {
	if n.doorman == nil {
		return fmt.Errorf("%w: the run is open: it has no secret", ErrOrder)
	}
	return n.order(slot.Rotate, "")
}

// order adds to what is wanted, or takes the opposite back.
func (n *Node) order(action slot.Action, p PeerID) error {
	if n.driver == nil {
		return fmt.Errorf("%w: the run is not found yet", ErrOrder)
	}
	n.orders.Lock()
	defer n.orders.Unlock()
	s := n.driver.Standing(p)
	all := slices.DeleteFunc(slices.Clone(n.orders.all), func(o slot.Order) bool { return o.Turn < n.driver.Standing(o.Peer).Turn })
	at := slices.IndexFunc(all, func(o slot.Order) bool { return o.Peer == p && o.Turn == s.Turn })
	switch {
	case at >= 0 && all[at].Action != action:
		all = slices.Delete(all, at, at+1)
	case at >= 0:
		return nil // it stands
	case action == slot.Remove && s.Removed:
		return fmt.Errorf("%w: %s is removed already", ErrOrder, p)
	case action == slot.Readmit && !s.Removed:
		return fmt.Errorf("%w: %s is not removed, and this peer has not asked for that", ErrOrder, p)
	case len(all) >= slot.MaxDecisions:
		return fmt.Errorf("%w: %d orders stand already", ErrOrder, len(all))
	default:
		all = append(all, slot.Order{Action: action, Peer: p, Turn: s.Turn})
	}
	if err := disk.Replace(n.dir.fs, n.dir.path(ordersFile), formatOrders(all)); err != nil {
		return fmt.Errorf("%w: %w", ErrOrder, err)
	}
	n.orders.all = all
	n.driver.Report(membership.ReportOrders{Orders: all})
	return nil
}

// restoreOrders gives the orders that stood before.
func (n *Node) restoreOrders() error {
	b, err := disk.Read(n.dir.fs, n.dir.path(ordersFile), maxOrdersFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		n.orders.all, err = parseOrders(string(b))
	}
	if err != nil {
		return fmt.Errorf("%s: %w: remove it, and give the orders again that should stand", n.dir.path(ordersFile), err)
	}
	n.driver.Report(membership.ReportOrders{Orders: n.orders.all})
	return nil
}

func formatOrders(all []slot.Order) []byte {
	var b strings.Builder
	for _, o := range all {
		about := "-"
		if o.Peer != "" {
			about = o.Peer.String()
		}
		fmt.Fprintf(&b, "%s %s %d\n", o.Action, about, o.Turn)
	}
	return []byte(b.String())
}

func parseOrders(text string) (all []slot.Order, err error) {
	actions := map[string]slot.Action{"remove": slot.Remove, "readmit": slot.Readmit, "rotate": slot.Rotate}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) != 3 || actions[f[0]] == 0 || len(all) >= slot.MaxDecisions {
			return nil, fmt.Errorf("%q is no order", strings.TrimSpace(line))
		}
		o := slot.Order{Action: actions[f[0]]}
		if o.Action != slot.Rotate {
			if o.Peer, err = slot.ParsePeerID(f[1]); err != nil || len(o.Peer) < slot.MinPeerIDLen {
				return nil, fmt.Errorf("%q is no peer ID", f[1])
			}
		}
		if o.Turn, err = strconv.ParseUint(f[2], 10, 64); err != nil {
			return nil, err
		}
		all = append(all, o)
	}
	return all, nil
}

// keyring is what a private run's peer does about the secret (doorman).
type keyring interface {
	// candidate is the commitment to a secret of this peer's own that nobody else knows; it is on disk once it is proposed and held.
	candidate() (Root, error)
	// holdKey gets the secret of a commitment on disk, and keeps it from the peers of without.
	holdKey(ctx context.Context, key Root, from []PeerID, without ...PeerID) error
	// follow brings it in force, and shuts out who may not be here any more.
	follow(a access) error
}

// removedBy lists whom a draft removes.
func removedBy(d slot.Draft) (out []PeerID) {
	for _, k := range d.Decisions {
		if k.Action == slot.Remove {
			out = append(out, k.Peer)
		}
	}
	return out
}

// admit does as the chain says about who may be in the run, and gets the next secret ready.
func (w *worker) admit(ctx context.Context, work membership.WorkAccess, report func(membership.Report)) {
	if w.keys == nil {
		return
	}
	err := error(nil)
	if !work.Key.IsZero() {
		err = w.keys.holdKey(ctx, work.Key, work.From)
	}
	if err := errors.Join(err, w.keys.follow(access{work.Key, w.standing})); err != nil { // who was removed is put out without the secret, too
		w.failed(ctx, work, err, report)
		return
	}
	next, err := w.keys.candidate()
	if err != nil {
		w.failed(ctx, work, err, report)
		return
	}
	report(membership.ReportKey{Key: next})
}

// another has another secret ready for the next proposal, if that failed because the one in it may be known to whom it removes.
func (w *worker) another(err error, report func(membership.Report)) {
	if !errors.Is(err, errKeyShared) {
		return
	}
	if next, err := w.keys.candidate(); err == nil {
		report(membership.ReportKey{Key: next})
	}
}

// standing says of a peer whether it was ever a member, and whether it is removed or as good as that.
func (n *Node) standing(p PeerID) (ever, removed bool) {
	s := n.driver.Standing(p)
	return s.Ever, s.Barred
}

// OrderStatus is what some members want done about who may be in the run.
type OrderStatus struct {
	Action string   `json:"action"` // remove | readmit | rotate
	Peer   PeerID   `json:"peer,omitempty"`
	By     []PeerID `json:"by"`     // members
	Enough bool     `json:"enough"` // a quorum: it waits for its record
}

func orderStatuses(v membership.View) (out []OrderStatus) {
	for _, o := range v.Orders {
		out = append(out, OrderStatus{Action: o.Action.String(), Peer: o.Peer, By: o.By, Enough: o.Enough})
	}
	return out
}
