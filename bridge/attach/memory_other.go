//go:build !unix

package attach

import (
	"context"
	"errors"
	"os"
)

var errSystem = errors.New("trainers can attach on Linux, macOS and other Unix systems only")

// MemoryFile is what cannot be made on this system.
type MemoryFile struct{ *os.File }

// NewMemoryFile returns an error: on this system no memory can be shared with a trainer.
func NewMemoryFile(context.Context, uint64) (*MemoryFile, error) { return nil, errSystem }

// ReadOnly returns an error.
func (f *MemoryFile) ReadOnly() (*os.File, error) { return nil, errSystem }

// ReserveRegion returns an error.
func ReserveRegion(uint64) (*Region, error) { return nil, errSystem }

// Map returns an error.
func (r *Region) Map(*MemoryFile) error { return errSystem }

// Close does nothing.
func (r *Region) Close() error { return nil }
