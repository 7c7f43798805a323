package lab

// Stats count IP packets and their bytes. What was dropped is counted at the node that sent it.
type Stats struct {
	SentPackets, SentBytes         uint64
	ReceivedPackets, ReceivedBytes uint64
	Lost                           uint64 // packets dropped by a link's Loss
	Overflowed                     uint64 // packets dropped because a queue was full
	Cut                            uint64 // packets stopped by a cut
}
