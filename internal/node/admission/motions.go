package admission

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership"
)

// maxMotionFile bounds what is read of the file of motions, in bytes.
const maxMotionFile = 4 << 10

// ErrMotion is wrapped by errors that say why a motion cannot be made.
var ErrMotion = errors.New("p2pdiloco: the motion cannot be made")

// Motions are the changes of membership that this peer's operator wants. One peer's motion does
// nothing by itself: once the operators of a quorum of the members have made the same one, a record
// carries it out. Until then motions stand, over restarts, in a file: a line for each, with action,
// peer (- for none) and turn.
type Motions struct {
	ledger *membership.Driver
	files  Files

	mu struct {
		sync.Mutex
		all []slot.Motion
	}
}

// NewMotions reads the file and makes the motions in it again.
func NewMotions(ledger *membership.Driver, files Files) (*Motions, error) {
	m := &Motions{ledger: ledger, files: files}
	b, err := disk.Read(files.FS, files.path(motionFile), maxMotionFile)
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err == nil {
		m.mu.all, err = parseMotions(string(b))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w: remove it, and make the motions again that should stand",
			files.path(motionFile), err)
	}
	ledger.Report(membership.ReportMotions{Motions: m.mu.all})
	return m, nil
}

// Make adds a motion about a peer, or one about the secret if no peer is named. A motion that is
// the opposite of an earlier one takes that back.
func (m *Motions) Make(action slot.Action, p slot.PeerID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.ledger.Access(p)
	all := slices.DeleteFunc(slices.Clone(m.mu.all),
		func(o slot.Motion) bool { return o.Turn < m.ledger.Access(o.Peer).Turn })
	at := slices.IndexFunc(all, func(o slot.Motion) bool { return o.Peer == p && o.Turn == s.Turn })
	switch {
	case at >= 0 && all[at].Action != action:
		all = slices.Delete(all, at, at+1)
	case at >= 0:
		return nil // it stands
	case action == slot.Remove && s.Removed:
		return fmt.Errorf("%w: %s is removed already", ErrMotion, p)
	case action == slot.Readmit && !s.Removed:
		return fmt.Errorf("%w: %s is not removed, and this peer has not asked for that", ErrMotion, p)
	case len(all) >= slot.MaxDecisions:
		return fmt.Errorf("%w: %d motions stand already", ErrMotion, len(all))
	default:
		all = append(all, slot.Motion{Action: action, Peer: p, Turn: s.Turn})
	}
	if err := disk.Replace(m.files.FS, m.files.path(motionFile), formatMotions(all)); err != nil {
		return fmt.Errorf("%w: %w", ErrMotion, err)
	}
	m.mu.all = all
	m.ledger.Report(membership.ReportMotions{Motions: all})
	return nil
}

func formatMotions(all []slot.Motion) []byte {
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

func parseMotions(text string) (all []slot.Motion, err error) {
	actions := map[string]slot.Action{"remove": slot.Remove, "readmit": slot.Readmit, "rotate": slot.Rotate}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) != 3 || actions[f[0]] == 0 || len(all) >= slot.MaxDecisions {
			return nil, fmt.Errorf("%q is no motion", strings.TrimSpace(line))
		}
		o := slot.Motion{Action: actions[f[0]]}
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
