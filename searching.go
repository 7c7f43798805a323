package p2pdiloco

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

// searchAgain is how often people are told that the run is still looked for.
const searchAgain = 8 * time.Second

// tellSearching says that the run is still looked for, and why no bootstrap address answers, until
// ctx ends.
func (n *Node) tellSearching(ctx context.Context) {
	tick := time.NewTicker(searchAgain)
	defer tick.Stop()
	for began := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		detail := fmt.Sprintf("%s (%v so far)", n.searching(), time.Since(began).Round(time.Second))
		if err := n.net.Bootstrap().Err(); err != nil {
			detail += "; " + cmp.Or(lookUp(ctx, n.cfg.Bootstrap), err).Error()
		}
		n.emit("run.searching", map[string]any{"run": n.cfg.Spec.Name, "detail": detail})
	}
}

// lookUp returns what the resolver says of the names in addresses: dials say only that no address
// is good. It is nil where all are found.
func lookUp(ctx context.Context, addrs []string) error {
	ctx, cancel := context.WithTimeout(ctx, searchAgain/2)
	defer cancel()
	var errs []error
	for _, a := range addrs {
		parts := strings.Split(a, "/")
		if len(parts) > 2 && strings.HasPrefix(parts[1], "dns") && parts[1] != "dnsaddr" {
			_, err := net.DefaultResolver.LookupHost(ctx, parts[2])
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
