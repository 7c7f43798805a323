package peer

import (
	"strings"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
)

// maxAllow bounds what is read of a list of peers, in bytes.
const maxAllow = 1 << 20

// readPeers reads the peers whose motions are followed, and the file of the peers that may take
// part, which has an ID a line; # begins a comment.
func (s *Settings) readPeers() (allowed, followed []p2pdiloco.PeerID, errs sources.Faults) {
	for _, text := range s.follow {
		p, ok := peerID(text)
		errs.Add(!ok, "follow", text, "no peer ID, like 12D3Koo…, as status shows it")
		followed = append(followed, p)
	}
	if s.allow == "" {
		return nil, followed, errs
	}
	text, err := disk.Read(disk.OS, s.allow, maxAllow)
	errs.Add(err != nil, "allow", s.allow, "%v", err)
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		p, ok := peerID(line)
		allowed = append(allowed, p)
		if !ok {
			errs.Add(true, "allow", s.allow, "line %d is no peer ID, like 12D3Koo…", n)
			break // it may be a file of another kind
		}
	}
	errs.Add(err == nil && len(allowed) == 0, "allow", s.allow, "it lists no peer")
	return allowed, followed, errs
}

func peerID(text string) (p p2pdiloco.PeerID, ok bool) {
	p, err := slot.ParsePeerID(text)
	return p, err == nil && len(p) >= slot.MinPeerIDLen
}
