package wire

import "math"

// Hello is a rank's first message.
type Hello struct {
	Version uint64
	Rank    uint64 // of World, from 0
	World   uint64
	Set     string // the same in all ranks of one start of the trainer, another after a restart
	Run     string // name of the run that the trainer wants; empty: whatever the node's is
	Client  string // name and version of the client, for logs

	Saves uint64 `wire:"10"` // 1: it saves its private state where a TRAIN names a folder
	// The slot whose round the rank's private state has whole, and nothing after it: with that
	// anchor it stays as it is. 0: none; StateStays: with any anchor.
	State uint64 `wire:"11"`
}

// StateStays is for ranks whose private state the caller has set, or that have none.
const StateStays = math.MaxUint64

// Welcome says with whom a rank speaks.
type Welcome struct {
	Version uint64
	Run     string // name of the run
	DataDir string // of the node: status, invite and doctor are asked through it
	PID     uint64 // of the node
}

// Layout is the model, and which pieces of it a rank holds.
type Layout struct {
	Tensors []Tensor // global, in flat order, the same in all ranks
	Pieces  []Piece
}

// Share is the memory of a set of ranks. Two descriptors go with its first byte: start, read-only,
// and local.
type Share struct {
	Elements uint64 // D
	Offset   uint64 // bytes, in both mappings, from the words to the first element
	Size     uint64 // bytes of each mapping
	Epoch    uint64 // number of the set
	Writes   []byte // for each piece of the rank: 1 if it writes it to local, 0 if another does
}

// Info is for show. It comes when the run is known, and once to every set.
type Info struct {
	RunID      string
	Peer       string
	Mode       string
	InnerSteps uint64 // H
	LastSlot   uint64
	Spec       string // JSON
	// at the end of the run: the last slot that was applied, and the root of the state after it
	Slot uint64
	Root string
}

// Fill asks for the initial parameters in local: this peer founds the run.
type Fill struct{}

// Load asks to replace the live parameters [Begin, End) of the flat vector by start's.
type Load struct {
	Begin, End uint64
	Generation uint64 // that start's word holds while it may be read
}

// Export asks for a part of the flat vector in local.
type Export struct {
	Begin, End uint64
	Kind       uint64 // ExportParams or ExportGradient
}

// What is to be written to local.
const (
	ExportNothing  = 0
	ExportGradient = 1 // start - live parameters, subtracted in float32
	ExportParams   = 2 // live parameters
)

// Evaluate asks for the mean held-out loss of the live model. With a prompt it asks what the model
// makes of that instead, in Done.Text; a rank that knows no prompts has no text there.
type Evaluate struct{ Prompt string }

// Restore hands back what World ranks have saved. Without a folder, what an earlier one has handed
// back is left out.
type Restore struct {
	Folder string
	World  uint64
}

// Train asks for inner steps.
type Train struct {
	Slot      uint64
	Steps     uint64
	Look      uint64 // number of steps after which to send AT; 0: never
	Export    uint64 // what to write to local before OFFER: ExportNothing or ExportGradient
	Seed      uint64 // of the run
	Member    uint64 // this peer's place among the Members of the run
	Members   uint64
	Part      uint64 // of the data
	PartSteps uint64 // the steps that a part is enough for
	PartDone  uint64 // steps of the part that were trained before
	Delay     uint64 // mode streaming: inner steps from a border to the landing
	MemberIDs string // peer IDs of the run's members as text, a line each
	// Before the first of these steps the rank saves its private state in a new file, Save/rank-K,
	// which is empty where it cannot. Empty: it saves nothing.
	Save string
	// where the run is before these steps, in inner steps of its time, and where it ends
	Step, TotalSteps uint64
}

// Done answers a request.
type Done struct {
	Status uint64
	Text   string  // why it failed; what was made of a prompt
	Loss   float64 // of EVALUATE
}

// Statuses of Done.
const (
	StatusOK          = 0
	StatusUnsupported = 1 // the rank cannot do that, ever
	StatusFailed      = 2
)

// Offer answers TRAIN: its steps are done, or given up, and local holds what was to be exported.
type Offer struct {
	Steps    uint64
	Tokens   uint64 // of this rank; of ranks that share their data, all but one give 0
	Samples  uint64
	Loss     float64 // mean over the steps
	GradNorm float64 // mean over the steps, before it was clipped; 0: unknown
	Seconds  float64
}

// At says that a rank has come to a step that it was to ask at.
type At struct {
	Train uint64 // id of the TRAIN
	Steps uint64 // done
}

// Go answers AT, with the same words to all ranks.
type Go struct {
	Answer uint64 // GoOn or GiveUp
	Look   uint64 // number of steps after which to send the next AT; 0: never
}

// Answers of Go.
const (
	GoOn   = 0
	GiveUp = 1 // export nothing, send OFFER with the steps that were done
)

// Notice is a line for people. Rank 0 logs it.
type Notice struct {
	Level uint64 // NoticeInfo or NoticeWarn
	Text  string
}

// Levels of Notice.
const (
	NoticeInfo = 0
	NoticeWarn = 1
)

// Ping asks for a Pong.
type Ping struct{}

// Pong answers Ping.
type Pong struct{}

// Leave says that a rank goes.
type Leave struct {
	Reason string
	Run    uint64 // 1: the peer leaves the run, too
}

// Error says why the node closes the socket.
type Error struct {
	Code Code
	Text string // what happened, what it means, what to do
}

// Code is the kind of an Error.
type Code uint64

// Codes.
const (
	CodeProtocol  Code = 1  // a message that makes no sense
	CodeVersion   Code = 2  // another major version
	CodeRun       Code = 3  // another run
	CodeBusy      Code = 4  // another trainer has the node: try again later
	CodeRank      Code = 5  // rank and world do not fit those of the other ranks
	CodeLayout    Code = 6  // tensors or pieces do not fit
	CodeMemory    Code = 7  // too little memory
	CodeLost      Code = 8  // another rank was lost: attach again, all of you
	CodeNotFinite Code = 9  // NaN, infinity or a value that is too large
	CodeTimeout   Code = 10 // no progress
	CodeEnded     Code = 11 // the run has ended; the final model was loaded before
	CodeClosed    Code = 12 // the node ends, or has left the run
	CodeMissed    Code = 13 // the run ended without this peer, and its final model cannot be had
)
