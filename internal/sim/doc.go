// Package sim makes networks of real libp2p hosts that exist only in memory, with latency and links
// that can be cut, for tests in testing/synctest bubbles: minutes of network time pass in a second.
//
//	synctest.Test(t, func(t *testing.T) {
//		net := sim.New(t, 8, 20*time.Millisecond)
//		net.Connect(0, 1)
//		net.Cut(0, 1) // drops packets both ways; connections notice after QUIC's idle timeout of 30 s
//		net.Heal(0, 1)
//		net.Freeze(2)                      // no packet in or out, also for hosts that come later, until Thaw
//		net.Slow(3, 200*time.Millisecond) // more latency, both ways
//	})
//
// The hosts of New speak QUIC only. Those of NewMemory exchange no packets: their streams are
// queues with latency and rate, for long runs of many peers. Both close when the test ends; what a
// test starts on top of them must be closed before, by t.Cleanup after New or in the test itself.
// No real socket may be used inside the bubble.
package sim
