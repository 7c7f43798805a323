package attach

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/p2pdiloco/p2pdiloco/bridge/attach/wire"
	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	canonical "github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// Names in the data directory.
const (
	socketFile = "attach.sock"
	pathFile   = "attach" // holds the path of the socket, which may lie elsewhere
)

// Variable is what names the socket to a command that a node starts.
const Variable = "P2PDILOCO_ATTACH"

// maxSocketPath is what all systems have room for.
const maxSocketPath = 103

// Config is what a Server works with. The zero values of those with a default take it.
type Config struct {
	DataDir string // of the node
	Run     string // name of the run; empty: any
	// Timeout is how long ranks may make no progress. Default 10 minutes.
	Timeout time.Duration
	// Return is how long the peer stays for a trainer that is gone. Default 10 minutes; below 0 it
	// does not stay.
	Return time.Duration
	// Looks is about how long ranks train on without asking whether they should. Default a second.
	Looks time.Duration
	// Gathers is how often people are told which ranks of a set are still missing, first after a
	// sixth of it. Default a minute.
	Gathers time.Duration
	Notice  func(text string) // gets lines for people; default: nobody
	Logger  *slog.Logger      // default: silent
}

func (c Config) withDefaults() Config {
	c.Timeout = cmp.Or(c.Timeout, 10*time.Minute)
	c.Return = cmp.Or(c.Return, 10*time.Minute)
	c.Looks = cmp.Or(c.Looks, time.Second)
	c.Gathers = cmp.Or(c.Gathers, time.Minute)
	if c.Notice == nil {
		c.Notice = func(string) {}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Server listens for ranks. Close it after the node that works in its memory.
type Server struct {
	cfg      Config
	listener *net.UnixListener
	place    string // a directory that was made for the socket; empty: it is in the data directory
	loop     *loop
	accepts  sync.WaitGroup

	closing sync.Once
	closed  error
}

// Listen opens the socket. Ranks can attach from then on.
func Listen(cfg Config) (*Server, error) {
	cfg = cfg.withDefaults()
	s := &Server{cfg: cfg}
	if err := s.listen(); err != nil {
		return nil, fmt.Errorf("the socket for trainers: %w", err)
	}
	path := []byte(s.Path() + "\n")
	if err := disk.Replace(disk.OS, filepath.Join(cfg.DataDir, pathFile), path); err != nil {
		return nil, errors.Join(err, s.unlisten())
	}
	s.loop = newLoop(cfg)
	s.accepts.Go(s.accept)
	return s, nil
}

// Path is the path of the socket.
func (s *Server) Path() string { return s.listener.Addr().String() }

// listen makes the socket in the data directory, or in a directory of its own where the path is too
// long.
func (s *Server) listen() error {
	dir, err := filepath.Abs(s.cfg.DataDir)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, socketFile)
	if len(path) > maxSocketPath {
		if s.place, err = place(dir); err != nil {
			return err
		}
		path = filepath.Join(s.place, socketFile)
	}
	if err := removeStale(path); err != nil {
		return err
	}
	s.listener, err = net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err == nil {
		err = os.Chmod(path, 0o600)
	}
	if err != nil && s.listener != nil {
		err = errors.Join(err, s.listener.Close())
	}
	return err
}

// place makes the folder for the socket of a data directory whose path is too long. It has the same
// name each time: ranks that have outlived a node look where they were told to. Where that name is
// another user's, a new one is made.
func place(dir string) (string, error) {
	base := os.Getenv("XDG_RUNTIME_DIR")
	if !filepath.IsAbs(base) {
		base = os.TempDir()
	}
	sum := canonical.Sum256([]byte(dir))
	if named := filepath.Join(base, fmt.Sprintf("p2pdiloco-%x", sum[:8])); own(named) == nil {
		return named, nil
	}
	return os.MkdirTemp(base, "p2pdiloco-") // for this user alone
}

// removeStale removes a socket that a node has left behind that was killed.
func removeStale(path string) error {
	c, err := net.Dial("unix", path) //nolint:noctx // it answers at once, or there is nobody
	if err == nil {
		return errors.Join(fmt.Errorf("another node listens at %s: give --data-dir for a second peer", path), c.Close())
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func (s *Server) accept() {
	for {
		c, err := s.listener.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			s.cfg.Logger.Warn("a trainer could not connect", "err", err)
			time.Sleep(50 * time.Millisecond) // no descriptors are left
			continue
		}
		if err := allowed(c); err != nil {
			s.cfg.Logger.Warn("a connection of another user was refused", "err", err)
			_ = c.Close()
			continue
		}
		s.loop.welcome(c)
	}
}

// Leave has the node's Run end with ErrLeave, as a trainer that says so does.
func (s *Server) Leave(reason string) {
	s.loop.do(func() todo { return todo{Leave{Reason: reason}} })
}

// Done is closed when the peer is to end because of its trainer, also while the node does not call
// it, and when the server is closed.
func (s *Server) Done() <-chan struct{} { return s.loop.done }

// Err is why Done is closed: ErrLeave, ErrNoReturn, or that the server is closed.
func (s *Server) Err() error {
	select {
	case <-s.loop.done:
		return s.loop.stop
	default:
		return nil
	}
}

// End tells all ranks how it ended for the run, and every later one.
func (s *Server) End(code wire.Code, text string) {
	s.loop.do(func() todo { return s.loop.box.End(Fault{Code: code, Text: text}) })
}

// Notify tells the ranks a line for people. level is wire.NoticeInfo or wire.NoticeWarn. It does
// not wait for a rank that reads nothing: what does not fit into the queue is left out.
func (s *Server) Notify(level uint64, text string) {
	select {
	case s.loop.notices <- &wire.Notice{Level: level, Text: text}:
	default:
	}
}

// State says in plain words how far the trainer is.
func (s *Server) State() (text string) {
	s.loop.do(func() todo {
		text = s.loop.box.State()
		if k := s.loop.savesEvery.Load(); k > 1 {
			text += fmt.Sprintf("; their own state is saved every %d slots, because the disk is slow", k)
		}
		return nil
	})
	return text
}

// Came says whether all ranks of some set have ever attached.
func (s *Server) Came() (came bool) {
	s.loop.do(func() todo {
		came = s.loop.box.Came()
		return nil
	})
	return came
}

// Close sends the ranks away, and gives the memory back.
func (s *Server) Close() error {
	s.closing.Do(func() {
		s.End(wire.CodeClosed, "the node has ended")
		s.closed = s.unlisten()
		s.accepts.Wait()
		s.closed = errors.Join(s.closed, s.loop.close())
		if err := os.Remove(filepath.Join(s.cfg.DataDir, pathFile)); !errors.Is(err, os.ErrNotExist) {
			s.closed = errors.Join(s.closed, err)
		}
	})
	return s.closed
}

func (s *Server) unlisten() error {
	err := s.listener.Close()
	if s.place != "" {
		err = errors.Join(err, os.RemoveAll(s.place))
	}
	return err
}

// own makes a folder that this user alone can use, or takes it if it is there. Another user may
// have made it first, in a place that all can write to: then nothing in it is to be trusted.
func own(folder string) error {
	if err := os.Mkdir(folder, 0o700); err == nil || !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(folder)
	if err != nil {
		return err
	}
	if of, ok := info.Sys().(*syscall.Stat_t); !ok || !info.IsDir() || info.Mode().Perm() != 0o700 ||
		int(of.Uid) != os.Geteuid() {
		return fs.ErrPermission
	}
	return nil
}
