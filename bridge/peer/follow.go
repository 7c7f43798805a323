package peer

import (
	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
)

// readFollowed reads the peers whose motions are followed.
func (s *Settings) readFollowed() (followed []p2pdiloco.PeerID, errs sources.Faults) {
	for _, text := range s.follow {
		p, ok := peerID(text)
		errs.Add(!ok, "follow", text, "no peer ID, like 12D3Koo…, as status shows it")
		followed = append(followed, p)
	}
	return followed, errs
}

func peerID(text string) (p p2pdiloco.PeerID, ok bool) {
	p, err := slot.ParsePeerID(text)
	return p, err == nil && len(p) >= slot.MinPeerIDLen
}
