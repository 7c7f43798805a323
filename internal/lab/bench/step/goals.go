package step

import (
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/lab/bench"
)

// Goals are the benches of reductions that have goals (../goals.txt).
func Goals(cfg Config) (all []Config) {
	const mib = 1 << 20
	with := func(slots uint64, mpi bool, cases ...Case) {
		cfg.Slots, cfg.MPI, cfg.Cases = slots, mpi, cases
		all = append(all, cfg)
	}
	of := func(peers int, bytes uint64, aggregator, codec string) Case {
		c := Case{Alone: true, Peers: peers, Bytes: bytes}
		c.Spec.Aggregator, c.Spec.Codec = aggregator, codec
		return c
	}
	slow := func(bytes uint64, rtt time.Duration, transport string) Case {
		c := of(4, bytes, "mean", "")
		c.Transport, c.Links = transport, bench.Links{Rate: 200e6, RTT: rtt}
		return c
	}
	with(cfg.Slots, true, of(4, 64*mib, "mean", ""), of(4, 64*mib, "trimmed_mean", ""), of(4, 64*mib, "mean", "int8"))
	with(cfg.Slots, true, of(4, mib, "mean", ""))
	with(cfg.Slots, false, of(2, 32*mib, "mean", ""), of(4, 32*mib, "mean", ""), of(8, 32*mib, "mean", ""),
		of(16, 32*mib, "mean", ""))
	with(3, false, slow(32*mib, 0, ""))
	with(3, false, slow(256*mib, 100*time.Millisecond, "tcp"), slow(256*mib, 100*time.Millisecond, "quic"))
	return all
}
