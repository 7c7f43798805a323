//go:build unix

package bench

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
)

// mpiSource is compiled when it is needed, with the machine's own compiler.
//
//go:embed mpi/allreduce.c
var mpiSource string

// MPI is mpi/allreduce.c under mpirun. FIFOs are the pipes to its ranks.
type MPI struct {
	peers    int
	elements uint64
	dir      string
	swarm    *swarm.Swarm
	proc     *swarm.Process
	start    []*os.File // of each rank
	done     *os.File
	lines    *bufio.Reader
}

// FindMPI says whether this machine has OpenMPI.
func FindMPI() error {
	for _, program := range []string{"mpicc", "mpirun"} {
		if _, err := exec.LookPath(program); err != nil {
			return noMPI("OpenMPI is not there (no " + program + " was found), so nothing can be measured beside it: " +
				"install it (on Debian: apt-get install openmpi-bin libopenmpi-dev)")
		}
	}
	return nil
}

// OpenMPI compiles the program in dir and starts it. mpirun and its ranks stay until Close; between
// rounds they wait without using a core.
func OpenMPI(ctx context.Context, dir string, peers int, elements uint64) (_ *MPI, err error) {
	if err := FindMPI(); err != nil {
		return nil, err
	}
	m := &MPI{peers: peers, elements: elements}
	if m.swarm, err = swarm.New(swarm.Setting{}, swarm.Loopback{}); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			m.Close()
		}
	}()
	if m.dir, err = os.MkdirTemp(dir, "mpi-"); err != nil {
		return m, err
	}
	program := filepath.Join(m.dir, "allreduce")
	if err := os.WriteFile(program+".c", []byte(mpiSource), 0o600); err != nil {
		return m, err
	}
	compile := exec.CommandContext(ctx, "mpicc", "-O2", "-std=c11", "-o", program, program+".c")
	if out, err := compile.CombinedOutput(); err != nil {
		return m, fmt.Errorf("compiling the MPI program: %w\n%s", err, out)
	}
	if err := m.openPipes(); err != nil {
		return m, err
	}
	cmd := exec.Command("mpirun", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo",
		"--allow-run-as-root", "--oversubscribe",
		"-np", strconv.Itoa(peers), program, m.dir, strconv.FormatUint(elements, 10))
	if m.proc, err = m.swarm.Start(cmd, m.dir, "mpirun"); err == nil {
		go func() {
			<-m.proc.Ended
			_ = m.done.Close()
		}()
	}
	return m, err
}

// openPipes makes a FIFO for each rank's start and one for all ranks' results. They are opened for
// both directions, so that opening does not block.
func (m *MPI) openPipes() error {
	for rank := range m.peers + 1 {
		path := filepath.Join(m.dir, fmt.Sprintf("go-%d", rank))
		if rank == m.peers {
			path = filepath.Join(m.dir, "done")
		}
		if err := unix.Mkfifo(path, 0o600); err != nil {
			return fmt.Errorf("making a FIFO: %w", err)
		}
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		m.start = append(m.start, f)
	}
	m.done, m.start = m.start[m.peers], m.start[:m.peers]
	m.lines = bufio.NewReader(m.done)
	return nil
}

// Round reduces once. The bytes sent are those that an all-reduce must send, because MPI does not
// report them.
func (m *MPI) Round(ctx context.Context) (s Round, err error) {
	for _, f := range m.start {
		if _, err := f.Write([]byte{1}); err != nil {
			return s, err
		}
	}
	// a read of a FIFO that this process may write does not end by itself
	defer context.AfterFunc(ctx, func() { _ = m.done.Close() })()
	for range m.start {
		line, err := m.lines.ReadString('\n')
		if err != nil {
			return s, errors.Join(ctx.Err(), fmt.Errorf("mpirun ended or does not answer; the end of its log:\n%s",
				swarm.Tail(m.proc.Log)))
		}
		var rank, right int
		var seconds, cpu float64
		if _, err := fmt.Sscanf(line, "%d %f %f %d", &rank, &seconds, &cpu, &right); err != nil || right != 1 {
			return s, fmt.Errorf("MPI's sums are wrong, or its answer is: %q", line)
		}
		s.Seconds = max(s.Seconds, seconds)
		s.CPU += cpu
	}
	s.Sent = 2 * float64(m.peers-1) * float64(4*m.elements)
	return s, nil
}

// Close ends mpirun, which ends its ranks.
func (m *MPI) Close() {
	for _, f := range m.start {
		_ = f.Close()
	}
	m.swarm.Close()
	if m.done != nil {
		_ = m.done.Close()
	}
	_ = os.RemoveAll(m.dir)
}
