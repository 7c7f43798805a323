package wire

import "errors"

// These are the reasons why a sealed message is refused. Bytes that cannot be parsed give
// canonical.ErrMalformed, overlong ones canonical.ErrTooLarge, those of another protocol version a
// *canonical.VersionError.
var (
	ErrForeignRun = errors.New("message of another run")
	ErrSignature  = errors.New("signature does not fit the message")
	ErrRelayed    = errors.New("message passed on by another peer than its signer")
)
