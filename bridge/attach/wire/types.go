package wire

import (
	"reflect"
	"strconv"
	"strings"
)

// Version is major << 16 | minor. Both sides must have the major in common; minors only add fields
// and types.
const Version = 1 << 16

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

// kinds are the messages of the types that are known, empty.
var kinds = map[Type]any{
	TypeHello: Hello{}, TypeWelcome: Welcome{}, TypeLayout: Layout{}, TypeShare: Share{}, TypeInfo: Info{},
	TypeFill: Fill{}, TypeLoad: Load{}, TypeExport: Export{}, TypeEvaluate: Evaluate{}, TypeRestore: Restore{},
	TypeTrain: Train{}, TypeDone: Done{}, TypeOffer: Offer{}, TypeAt: At{}, TypeGo: Go{},
	TypeNotice: Notice{}, TypePing: Ping{}, TypePong: Pong{}, TypeLeave: Leave{}, TypeError: Error{},
}

// String is the name that the protocol's description has for a type.
func (t Type) String() string {
	if k, ok := kinds[t]; ok {
		return strings.ToUpper(reflect.TypeOf(k).Name())
	}
	return "type " + strconv.Itoa(int(t))
}

// Message is a pointer to one of this package's messages. The fields of its struct are those of its
// body, with the tags 1, 2 and so on, or the one that a struct tag gives. They may be a uint64, a
// float64, a string, a []byte, and a []Tensor or []Piece, of which each element is a field.
type Message any

// TypeOf is a message's type; 0: it is none.
func TypeOf(m Message) Type {
	for t, k := range kinds {
		if reflect.TypeOf(m) == reflect.PointerTo(reflect.TypeOf(k)) {
			return t
		}
	}
	return 0
}

// fields are those of a message.
func fields(m Message) []field {
	v := reflect.ValueOf(m).Elem()
	all := make([]field, v.NumField())
	for i := range all {
		all[i] = field{uint16(i + 1), v.Field(i).Addr().Interface()}
		if tag, err := strconv.ParseUint(v.Type().Field(i).Tag.Get("wire"), 10, 16); err == nil {
			all[i].tag = uint16(tag)
		}
		if code, ok := all[i].value.(*Code); ok {
			all[i].value = (*uint64)(code)
		}
	}
	return all
}
