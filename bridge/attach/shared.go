package attach

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"github.com/p2pdiloco/p2pdiloco/bridge/attach/box"
	"github.com/p2pdiloco/p2pdiloco/bridge/attach/memory"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// Places of words. Those of start are for people and tests.
const (
	offset     = memory.Offset
	beatWord   = 0
	loadsWord  = 8
	markedWord = 16 // the generation that the mark is of
	markWord   = 24 // and three more
	rankStride = 64 // in local: a rank's steps done
)

// shared is the memory that node and ranks map. start stays for good; each set has a local of its
// own, so that a process of an earlier one can write where it likes. The node's slices of local
// stay where they are: adopt maps the new one in the place of the last.
type shared struct {
	layout       trainer.Layout
	size         uint64
	start, local *memory.Region // nil before the first set
	startFile    *memory.File
	startRead    *os.File // for ranks, which may not write it
	write        bool     // they may
	shares       bool     // a set has got them

	came  *set // a set that the node does not work with yet; nil: none
	epoch uint64
	world int
	held  box.Held // of the set that the node works with

	bytes atomic.Uint64 // of all mappings, for any goroutine
}

// Tests replace them.
var (
	newFile = memory.New
	free    = memory.Free
)

// nodeVectors is how many vectors of the model a node has at its peak in mode sync, the two shared
// ones among them (measured: docs/pytorch.md). Other modes and codecs with feedback have more.
const nodeVectors = 12

// scarce warns of a node that may not fit where its two shared vectors do; empty: it fits. It is no
// refusal: how many vectors a mode has at once is not known so exactly, and a machine may swap.
func scarce(vector, free uint64) string {
	if free/nodeVectors >= vector {
		return ""
	}
	return fmt.Sprintf("this peer takes about %d MiB in mode sync, which is %d times the model, and %d MiB are free "+
		"on this machine or in its cgroup: the kernel may end it, or another program, in the first round. End other "+
		"programs, raise the limit, or take a smaller model", nodeVectors*vector>>20, nodeVectors, free>>20)
}

// set is the memory of one set.
type set struct {
	epoch uint64
	world int
	local *memory.File
	held  box.Held
}

// next makes the memory of a set, and returns the descriptors for its ranks.
func (s *shared) next(e box.Share) (files []*os.File, err error) {
	if s.start == nil {
		if err := s.begin(e); err != nil {
			return nil, err
		}
	}
	s.drop()
	local, err := newFile(s.size)
	if err != nil {
		return nil, errors.Join(err, s.unbegin())
	}
	s.came, s.shares = &set{e.Epoch, len(e.Shares), local, e.Held}, true
	s.count()
	start := s.startRead
	if s.write {
		start = s.startFile.File
	}
	return []*os.File{start, local.File}, nil
}

// begin makes what stays for good.
func (s *shared) begin(e box.Share) (err error) {
	s.layout, s.size = e.Layout, memory.Size(e.Elements)
	if s.startFile, err = newFile(s.size); err != nil {
		return err
	}
	if s.startRead, err = s.startFile.ReadOnly(); err == nil {
		s.local, err = memory.Reserve(s.size)
	}
	var start *memory.Region
	if err == nil {
		start, err = memory.Reserve(s.size)
	}
	if err == nil {
		err = start.Map(s.startFile)
	}
	if err != nil {
		return errors.Join(err, s.startFile.Close())
	}
	s.start = start
	return nil
}

// unbegin gives back what a model has taken that fits once but not twice, so that the next one may
// have another layout. Where a set has shared it, it stays.
func (s *shared) unbegin() error {
	if s.shares {
		return nil
	}
	start, local := s.start, s.local
	s.layout, s.size, s.start, s.local = nil, 0, nil, nil
	s.count()
	return errors.Join(start.Close(), local.Close(), s.startFile.Close(), s.startRead.Close())
}

// adopt has the node work in the memory of the set that has come. The old local is lost.
func (s *shared) adopt() error {
	err := s.local.Map(s.came.local)
	s.epoch, s.world, s.held = s.came.epoch, s.came.world, s.came.held
	s.drop() // the mapping needs no descriptor
	return err
}

// drop forgets a set that the node does not work with yet.
func (s *shared) drop() {
	if s.came != nil {
		_ = s.came.local.Close()
	}
	s.came = nil
	s.count()
}

// count adds up what is mapped. A local of an earlier set is not known here any more: its memory is
// free when the processes have ended that map it.
func (s *shared) count() {
	mapped := uint64(0)
	for _, there := range []bool{s.start != nil, s.epoch > 0, s.came != nil} {
		if there {
			mapped += s.size
		}
	}
	s.bytes.Store(mapped)
}

// beat shows the ranks that the node lives.
func (s *shared) beat() {
	if s.start != nil {
		s.start.Word(beatWord).Add(1)
	}
}

// steps are the ranks' words, by rank.
func (s *shared) steps() []uint64 {
	all := make([]uint64, s.world)
	for rank := range all {
		all[rank] = s.local.Word(uint64(rank) * rankStride).Load()
	}
	return all
}

func (s *shared) clearSteps() {
	for rank := range s.world {
		s.local.Word(uint64(rank) * rankStride).Store(0)
	}
}

func (s *shared) close() error {
	s.drop()
	s.bytes.Store(0)
	if s.start == nil {
		return nil
	}
	return errors.Join(s.start.Close(), s.local.Close(), s.startFile.Close(), s.startRead.Close())
}
