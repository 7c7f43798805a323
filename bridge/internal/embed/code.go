package embed

import (
	"errors"
	"strings"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/bridge/settings"
)

// Code is what the functions of the header return.
type Code int32

// The codes, as in the header's enum.
const (
	OK Code = iota
	Failed
	Again
	Ended
	Closed
	Busy
	Invalid
	NotFinite
	Forked // only the C side returns it, in the child of a fork
	Missed
	BranchEnded
)

// fault is an error with a code of its own.
type fault struct {
	code Code
	err  error
}

func (f *fault) Error() string { return f.err.Error() }
func (f *fault) Unwrap() error { return f.err }

func faultOf(code Code, text string) error { return &fault{code, errors.New(text)} }

// ErrNull says that an argument that must point somewhere does not.
var ErrNull = faultOf(Invalid, "an argument is NULL that must not be")

var (
	errNone   = faultOf(Closed, "no such node: it was closed, or there never was one")
	errClosed = faultOf(Closed, "the node was closed meanwhile")
	errBusy   = faultOf(Busy, "another call on this node's vectors is under way: wait for it, or use a node for each "+
		"thread")
	errOpen  = faultOf(Busy, "a round was begun and is not finished: call finish first")
	errBegin = faultOf(Invalid, "no round was begun: call begin first")
	errAgain = faultOf(Again, "not yet")
)

// codes of errors of the node, the first that fits.
var codes = []struct {
	err  error
	code Code
}{
	{p2pdiloco.ErrRunEnded, Ended},
	{p2pdiloco.ErrMissed, Missed},
	{p2pdiloco.ErrBranchEnded, BranchEnded},
	{p2pdiloco.ErrNotFinite, NotFinite},
	{p2pdiloco.ErrLength, Invalid},
	{p2pdiloco.ErrNoAnchor, Invalid},
	{p2pdiloco.ErrRoundOpen, Busy},
	{settings.ErrInvalid, Invalid},
}

// CodeOf is the code of an error.
func CodeOf(err error) Code {
	if err == nil {
		return OK
	}
	if f, ok := errors.AsType[*fault](err); ok {
		return f.code
	}
	for _, c := range codes {
		if errors.Is(err, c.err) {
			return c.code
		}
	}
	if _, ok := errors.AsType[*p2pdiloco.SpecError](err); ok {
		return Invalid
	}
	return Failed
}

const maxText = 4096 // bytes

// Text is err as one line of UTF-8 without NUL; It is empty for OK, Again and Ended, which need no
// explanation.
func Text(err error) string {
	switch CodeOf(err) {
	case OK, Again, Ended:
		return ""
	default:
	}
	text := strings.ToValidUTF8(strings.TrimSpace(err.Error()), "?")
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' || r == 0 }), "; ")
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + " …"
	}
	return text
}
