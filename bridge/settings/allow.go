package settings

import (
	"strings"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// maxAllow bounds what is read of a list of peers, in bytes.
const maxAllow = 1 << 20

// minPeerID is the length of the shortest kind of peer ID, in bytes.
const minPeerID = 34

// readAllow reads the list of peers: an ID a line, # begins a comment.
func (s *Settings) readAllow() (allowed []p2pdiloco.PeerID, err error) {
	if s.allow == "" {
		return nil, nil
	}
	text, err := disk.Read(disk.OS, s.allow, maxAllow)
	if err != nil {
		return nil, fault("allow", s.allow, "%v", err)
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		p, err := slot.ParsePeerID(line)
		if err != nil || len(p) < minPeerID {
			return nil, fault("allow", s.allow, "line %d is no peer ID, like 12D3Koo…", n)
		}
		allowed = append(allowed, p)
	}
	if len(allowed) == 0 {
		return nil, fault("allow", s.allow, "it lists nobody")
	}
	return allowed, nil
}
