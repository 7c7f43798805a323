package membership

import (
	"errors"
	"fmt"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// tellRefused has an event tell, once a height of each peer, that something that it sent breaks the
// rules: a person who looks at a run that stands still learns from it which peer holds it up. An
// early or late message, or one that needs what is not known here, is refused in silence, because
// honest peers send such messages, too. It returns err.
func (ac *acceptor) tellRefused(msg wire.Message, what Reason, err error) error {
	d := ac.open
	if errors.Is(err, chain.ErrInvalid) && msg.From != ac.cfg.Self && !slices.Contains(d.refused, msg.From) {
		d.refused = append(d.refused, msg.From)
		ac.reportPeer(EventRefused, what, msg.From, fmt.Sprintf("its %s is refused: %v", what, err))
	}
	return err
}
