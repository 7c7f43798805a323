package wire

import "fmt"

// Version is major << 16 | minor. Minors only add fields and types.
const Version = 1 << 16

// Major is the part of a version that both sides must have in common.
func Major(version uint64) uint64 { return version >> 16 }

// Type is a message's type.
type Type uint16

// Types. R: a rank sends it; N: the node does. 20 (SAVE) and 27 (CANCEL) have been used.
const (
	TypeHello    Type = 1  // R
	TypeWelcome  Type = 2  // N, the answer to HELLO
	TypeLayout   Type = 3  // R
	TypeShare    Type = 4  // N, the answer to LAYOUT once all ranks have sent theirs
	TypeInfo     Type = 5  // N
	TypeFill     Type = 16 // N
	TypeLoad     Type = 17 // N
	TypeExport   Type = 18 // N
	TypeEvaluate Type = 19 // N
	TypeRestore  Type = 21 // N
	TypeTrain    Type = 22 // N
	TypeDone     Type = 23 // R, the answer to types 16 to 21
	TypeOffer    Type = 24 // R, the answer to TRAIN
	TypeAt       Type = 25 // R
	TypeGo       Type = 26 // N, the answer to AT
	TypeNotice   Type = 32 // N
	TypePing     Type = 33 // R
	TypePong     Type = 34 // N, the answer to PING
	TypeLeave    Type = 35 // R
	TypeError    Type = 36 // N, the last message before it closes the socket
)

// kinds are the types that are known: a name, and an empty message.
var kinds = map[Type]struct {
	name  string
	blank func() Message
}{
	TypeHello:    {"HELLO", func() Message { return new(Hello) }},
	TypeWelcome:  {"WELCOME", func() Message { return new(Welcome) }},
	TypeLayout:   {"LAYOUT", func() Message { return new(Layout) }},
	TypeShare:    {"SHARE", func() Message { return new(Share) }},
	TypeInfo:     {"INFO", func() Message { return new(Info) }},
	TypeFill:     {"FILL", func() Message { return new(Fill) }},
	TypeLoad:     {"LOAD", func() Message { return new(Load) }},
	TypeExport:   {"EXPORT", func() Message { return new(Export) }},
	TypeEvaluate: {"EVALUATE", func() Message { return new(Evaluate) }},
	TypeRestore:  {"RESTORE", func() Message { return new(Restore) }},
	TypeTrain:    {"TRAIN", func() Message { return new(Train) }},
	TypeDone:     {"DONE", func() Message { return new(Done) }},
	TypeOffer:    {"OFFER", func() Message { return new(Offer) }},
	TypeAt:       {"AT", func() Message { return new(At) }},
	TypeGo:       {"GO", func() Message { return new(Go) }},
	TypeNotice:   {"NOTICE", func() Message { return new(Notice) }},
	TypePing:     {"PING", func() Message { return new(Ping) }},
	TypePong:     {"PONG", func() Message { return new(Pong) }},
	TypeLeave:    {"LEAVE", func() Message { return new(Leave) }},
	TypeError:    {"ERROR", func() Message { return new(Error) }},
}

func (t Type) String() string {
	if k, ok := kinds[t]; ok {
		return k.name
	}
	return fmt.Sprintf("type %d", uint16(t))
}

// Message is what a header goes in front of.
type Message interface {
	kind() Type
	fields() []field
}

// TypeOf is a message's type.
func TypeOf(m Message) Type { return m.kind() }
