// Package codec says how the float32 values of a contribution, and of a reduced segment, travel as
// bytes. Roots commit to these bytes, and every peer, the one that encoded them included, goes on
// with what decodes from them: a codec is a part of the run spec.
//
// A vector is encoded block by block, each on its own, so that a range which lies on multiples of
// Block elements is encoded and decoded without the rest. A codec is stateless and may be used by
// many goroutines at once; error feedback, which lossy codecs need, belongs to the sender.
//
// Decoding takes bytes of any origin: it checks their length exactly, refuses scales that are no
// numbers and blocks that no encoder writes (internal/kernel/quant.go says which), and never
// panics. It does not judge the values: a decoded NaN, Inf or 2^100 and more is for the receiver to
// find (kernel.Bounded) and to refuse.
//
// A new codec is a pair of kernels and an entry in the table beside New, and in no other place: the
// tests and the fuzz target run over the table.
package codec
