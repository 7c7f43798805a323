// Package spec is the run spec: what all peers of a run must agree on. The type Spec has its
// fields. One table (fields.go) says of each field what it is called, its default and its allowed
// values. Everything else follows from that table: validation, defaults, the canonical encoding,
// the hash that is the run ID, and the comparison with another peer's spec.
//
// The life of a spec:
//
//	given := spec.Spec{Name: "my-run", Rounds: 200}   fields that are zero were not given
//	err := given.Validate()                           every fault at once, each an *Error
//	founded := given.Settled()                        the founder fills in the defaults
//	bytes := founded.Append(nil)                      what peers send each other
//	theirs, err := spec.Parse(bytes)                  settled and valid, or an error
//	err = given.Adopt(theirs, peer)                   a joiner: names the first field that differs
//	run := theirs.RunID()                             the hash of the encoding
//
// A settled spec has every field filled. The methods that compute with its values (LastSlot,
// Interval, OuterConfig and others) are for settled specs only.
package spec
