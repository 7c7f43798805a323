// Package safetensors writes and reads model files in the safetensors format, which Python programs
// can load.
//
// A file is the header's length (8 bytes, little-endian), the header (JSON: for each tensor its
// dtype, shape and the range of its bytes in the data; strings under "__metadata__"), and the data.
// The header begins with '{' and may end in spaces; the data is covered by the tensors without gap
// or overlap. (Format: the README of the safetensors project.)
//
// Write streams tensors from their own memory. Open reads and checks a header from any source; the
// tensors are then read one by one, F32 straight into the caller's memory, BF16 and F16 through a
// small buffer. Tensors of further types may be in a file, and cannot be read. Match says how a
// file differs from a layout.
package safetensors
