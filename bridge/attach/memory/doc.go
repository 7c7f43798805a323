// Package memory makes and maps the vectors that a node shares with the ranks of a trainer
// (docs/reference/attach.md, section 5).
//
//	f, err := memory.New(ctx, size)   // refuses what this machine has no room for
//	region, err := memory.Reserve(size)
//	err = region.Map(f)               // as often as there is a new file: the addresses stay
//	region.Word(0).Add(1)
//	v := region.Vector(d)
//
// A Region keeps its place in this process for good, so slices of it stay valid when another file
// is mapped there.
package memory
