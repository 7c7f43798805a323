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
// The tests are in the packages below this one. They see nodes through the exported API, and
// through internal/node/testhooks where they inject faults or read the ledger.
package nodetest
