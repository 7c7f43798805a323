package settings

import (
	"strings"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// maxAllow bounds what is read of a list of peers, in bytes.
const maxAllow = 1 << 20

// readAllow reads the list of peers: an ID a line, # begins a comment.
func (s *Settings) readAllow() (allowed []p2pdiloco.PeerID, errs []error) {
	if s.allow == "" {
		return nil, nil
	}
	text, err := disk.Read(disk.OS, s.allow, maxAllow)
	if err != nil {
		return nil, []error{fault("allow", s.allow, "%v", err)}
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		p, ok := peerID(line)
		if !ok {
			return nil, []error{fault("allow", s.allow, "line %d is no peer ID, like 12D3Koo…", n)}
		}
		allowed = append(allowed, p)
	}
	if len(allowed) == 0 {
		return nil, []error{fault("allow", s.allow, "it lists no peer")}
	}
	return allowed, nil
}

// readFollow reads the peers whose motions are followed.
func (s *Settings) readFollow() (peers []p2pdiloco.PeerID, errs []error) {
	for _, text := range s.follow {
		p, ok := peerID(text)
		if !ok {
			errs = append(errs, fault("follow", text, "no peer ID, like 12D3Koo…, as status shows it"))
		}
		peers = append(peers, p)
	}
	return peers, errs
}

func peerID(text string) (p p2pdiloco.PeerID, ok bool) {
	p, err := slot.ParsePeerID(text)
	return p, err == nil && len(p) >= slot.MinPeerIDLen
}
