package trainer

// Error says in which of its calls a Trainer failed. The run goes on without this peer: it should
// leave.
type Error struct {
	// Call is "load", "evaluate", "sample", "export", "init", "vectors", "return", or the slot that
	// the trainer trained for.
	Call string
	Err  error
}

func (e *Error) Error() string { return "trainer: " + e.Call + ": " + e.Err.Error() }

// Unwrap is the trainer's own error.
func (e *Error) Unwrap() error { return e.Err }
