package attach

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"github.com/p2pdiloco/p2pdiloco/internal/node/replica"
	"github.com/p2pdiloco/p2pdiloco/spec"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// Places of words. Those of start are for people and tests.
const (
	offset     = Offset
	beatWord   = 0
	loadsWord  = 8
	rankStride = 64 // in local: a rank's steps done
)

// shared is the memory that node and ranks map. start stays for good; each set has a local of its
// own, so that a process of an earlier one can write where it likes. The node's slices of local
// stay where they are: adopt maps the new one in the place of the last.
type shared struct {
	layout       trainer.Layout
	size         uint64
	start, local *Region // nil before the first set
	startFile    *MemoryFile
	startRead    *os.File // for ranks, which may not write it

	set       // that the node works with
	came *set // a set that it does not work with yet; nil: none

	bytes atomic.Uint64 // of all mappings, for any goroutine

	// discard closes a file that nobody here wants any more. To free its memory takes long.
	discard func(*MemoryFile)
}

// Tests replace them.
var (
	newFile   = NewMemoryFile
	closeFile = (*MemoryFile).Close
	free      = replica.FreeMemory
)

// scarce warns of a node that may not fit where its two shared vectors do; empty: it fits. It is no
// refusal: the mode is not known yet, and a machine may swap. Others than sync, and codecs with
// feedback, are in replica.Memory.
func scarce(l trainer.Layout, free uint64) string {
	needs := replica.NodeMemory(spec.Spec{Layout: l}.Settled())
	if needs <= free {
		return ""
	}
	return fmt.Sprintf("this peer takes about %d MiB in mode sync, and %d MiB are free on this machine or in its "+
		"cgroup: the kernel may end it, or another program, in the first round. End other programs, raise the limit, "+
		"or take a smaller model", needs>>20, free>>20)
}

// set is the memory of one set.
type set struct {
	epoch uint64 // 0: there is none
	world int
	file  *MemoryFile // local
	saves bool        // it saves its private state
	state uint64      // Share
}

// next takes over the files of a set, if it returns no error. start is nil where the node has one.
func (s *shared) next(e Share, start, local *MemoryFile) error {
	if start != nil {
		if err := s.begin(e, start); err != nil {
			return err
		}
	}
	s.drop()
	s.came = &set{e.Epoch, len(e.Shares), local, e.Saves, e.State}
	s.count()
	return nil
}

// begin takes over what stays for good.
func (s *shared) begin(e Share, file *MemoryFile) error {
	size := Size(e.Elements)
	read, err := file.ReadOnly()
	if err != nil {
		return err
	}
	start, err := ReserveRegion(size)
	if err != nil {
		return errors.Join(err, read.Close())
	}
	local, err := ReserveRegion(size)
	if err != nil {
		return errors.Join(err, start.Close(), read.Close())
	}
	if err := start.Map(file); err != nil {
		return errors.Join(err, local.Close(), start.Close(), read.Close())
	}
	s.layout, s.size, s.start, s.local, s.startFile, s.startRead = e.Layout, size, start, local, file, read
	return nil
}

// descriptors are what the ranks of the set that has come map.
func (s *shared) descriptors() []*os.File { return []*os.File{s.startRead, s.came.file.File} }

// adopt has the node work in the memory of the set that has come. The old local is lost.
func (s *shared) adopt() error {
	if err := s.local.Map(s.came.file); err != nil {
		return err
	}
	if s.file != nil {
		s.discard(s.file)
	}
	s.set, s.came = *s.came, nil
	s.count()
	return nil
}

// drop forgets a set that the node does not work with yet.
func (s *shared) drop() {
	if s.came != nil {
		s.discard(s.came.file)
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
	s.bytes.Store(0)
	err := closeFiles(s.startFile, s.file)
	if s.came != nil {
		err = errors.Join(err, s.came.file.Close())
	}
	if s.start == nil {
		return err
	}
	return errors.Join(err, s.start.Close(), s.local.Close(), s.startRead.Close())
}
