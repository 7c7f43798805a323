// Package wire has the messages of the attach protocol, in which the ranks of a trainer and the
// node of their machine talk over a Unix socket (docs/reference/attach.md). All integers are
// little-endian.
//
// A message is a header of 16 bytes and a body of tagged fields:
//
//	u32 bytes of the body, u16 type, u16 0, u64 id
//	u16 tag, u16 0, u32 bytes of the value, value        for each field
//
// A field that is missing is 0 or empty, and Append leaves such fields out. Parse skips tags and
// types that it does not know, so that both sides can grow. Everything else is checked exactly.
package wire
