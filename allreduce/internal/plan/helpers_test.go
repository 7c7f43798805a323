package plan

import (
	"fmt"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

func testParams(elements, frame int) Params {
	return Params{
		Fragments: []uint64{uint64(elements)}, FrameElements: frame, Aggregator: Mean, TrimPermille: 250,
		Discount: []uint32{1000, 500, 250}, Codec: "f32", Schedule: Ring, // plans may have one
	}
}

func peerName(i int) slot.PeerID { return slot.PeerID(fmt.Sprintf("peer-%02d", i)) }
