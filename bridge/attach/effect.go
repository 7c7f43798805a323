package attach

import (
	"fmt"

	"github.com/p2pdiloco/p2pdiloco/bridge/attach/wire"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// Conn is the number of a connection, as the shell gives it.
type Conn uint64

// Effect is what the shell is to do: a value of one of the next types.
type Effect any

// Effects.
type (
	// Send is a message for a rank.
	Send struct {
		Conn    Conn
		ID      uint64
		Message wire.Message
	}
	// Close ends a connection, after what was sent on it.
	Close struct{ Conn Conn }
	// Share asks for the memory of a set, which may take long. When it is there, the shell calls
	// Shared, and sends each of the messages with the descriptors. Where none can be had, it calls
	// Unshared.
	Share struct {
		Epoch    uint64
		Elements uint64
		Layout   trainer.Layout
		Shares   []Send
		Saves    bool   // all ranks save their private state
		State    uint64 // Hello.State, if all ranks have the same; else 0
	}
	// Unwanted says that the set is gone for which memory is asked. The shell calls neither.
	Unwanted struct{}
	// Answered hands the node the answers of all ranks, by rank, to the request of an id.
	Answered struct {
		ID      uint64
		Answers []wire.Message
	}
	// Lost says that a set is gone that shared the memory. Its request, if there was one, has no
	// answer.
	Lost struct{ Fault Fault }
	// Leave says that the trainer wants the peer to leave the run.
	Leave struct{ Reason string }
)

// Fault is why ranks are sent away.
type Fault struct {
	Code wire.Code
	Text string
}

func (f Fault) Error() string { return f.Text }

func fault(code wire.Code, format string, args ...any) *Fault {
	return &Fault{code, fmt.Sprintf(format, args...)}
}
