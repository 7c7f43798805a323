//go:build !unix

package memory

import (
	"context"
	"errors"
	"os"
)

var errSystem = errors.New("trainers can attach on Linux, macOS and other Unix systems only")

// File is what cannot be made on this system.
type File struct{ *os.File }

// New returns an error: on this system no memory can be shared with a trainer.
func New(context.Context, uint64) (*File, error) { return nil, errSystem }

// ReadOnly returns an error.
func (f *File) ReadOnly() (*os.File, error) { return nil, errSystem }

// Reserve returns an error.
func Reserve(uint64) (*Region, error) { return nil, errSystem }

// Map returns an error.
func (r *Region) Map(*File) error { return errSystem }

// Close does nothing.
func (r *Region) Close() error { return nil }
