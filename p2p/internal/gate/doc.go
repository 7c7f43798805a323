// Package gate closes a Network for everybody but the peers of one private run. A Gate knows which
// peers are admitted; it asks a peer for admission before the first stream to it, and answers those
// that ask here. Everything that a Network serves goes through Admits, everything that it opens
// through Pass and then StillPasses.
//
// A Gate is set on a Network before protocols are handled, and lifted when the run ends. A nil Gate
// lets everybody through.
package gate
