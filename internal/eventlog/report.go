package eventlog

// Peer sums up one peer's part in a run.
type Peer struct {
	Run        string `json:"run"`
	RunID      string `json:"run_id"`
	PeerID     string `json:"peer_id"`
	Parameters uint64 `json:"parameters"`
	// whether this peer has the run's final model, as all know it; false after an early leave
	Ended bool `json:"ended"`
	// ended | ended_provisional | ended_missed | left
	Status        string   `json:"status"`
	Slot          uint64   `json:"slot"` // newest applied
	StateRoot     string   `json:"state_root"`
	RoundsApplied uint64   `json:"rounds_applied"`
	LossFirst     *float64 `json:"loss_first"` // held-out, nats per token; null if never measured
	LossLast      *float64 `json:"loss_last"`
	Tokens        uint64   `json:"tokens"` // trained on here
	BytesSent     uint64   `json:"bytes_sent"`
	BytesReceived uint64   `json:"bytes_received"`
	Training      float64  `json:"training_seconds"` // spent in inner steps
	// that the trainer stood still and waited for others
	Stall       float64 `json:"stall_seconds"`
	WallSeconds float64 `json:"wall_seconds"`
}
