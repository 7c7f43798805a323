// Package wire holds what the members of a run send each other about the ledger, and what each
// keeps on disk before it sends: messages, the sealed envelope around them, and entries of the log.
//
// A Body is one of the messages. Seal signs it and gives the bytes that travel; Open checks size,
// version, run and signature, in this order, and gives the Message back. ParseBody checks form
// alone: the machine in package membership decides whether a message makes sense.
//
// An Entry is one thing that must be on disk before the messages of the same step leave. Saved is
// what a store gives back at start. A Pledge collects what one peer has promised and voted at one
// Position of the chain.
//
// All encodings are canonical: one value has one encoding, so that a signature or a hash stands for
// the value. The bytes are part of the protocol and are pinned by golden files.
package wire
