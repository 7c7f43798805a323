// Package nodetest runs whole nodes over a simulated network, in bubbles of virtual time
// (testing/synctest): a [Swarm] is a bootstrap node and peers that train a small model, and can be
// killed, frozen, cut off and restarted.
//
//	nodetest.Run(t, nodetest.Spec(6, 3), 3, func(s *nodetest.Swarm) {
//		s.Start(s.Peers...)
//		s.Reach(2, s.Peers...)
//		s.Kill(s.Peers[1])
//		s.Restart(s.Peers[1])
//		s.Finish(time.Minute, s.Peers...) // all ended well, with equal states after every slot
//	})
//
// The tests see nodes through the exported API, and through internal/node/edge (Hooks) where they
// inject faults or read the ledger. What takes longest (modes, faults, partitions, hostile peers)
// is in packages below this one, which run side by side.
//
// TestTable measures what attacks cost a run: an honest run in each seed and each attack beside it.
// It prints the table of docs/why/trust.md. By default it tries one attack at tiny sizes:
//
//	go test ./internal/nodetest -run TestTable -timeout 2h -v -args -attacks all -bad 1,2
package nodetest
