package peer

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/api"
	"github.com/p2pdiloco/p2pdiloco/internal/disk"
)

// serve serves the API, and the metrics where they have an address of their own.
func (p *Peer) serve(s *Settings) error {
	keys, err := p.keys(s)
	if err != nil {
		return err
	}
	scrapes := p2pdiloco.MetricsHandler(p.Status)
	if s.Metrics != "" {
		addr, err := api.ParseMetricsAddress(s.Metrics)
		if err != nil {
			return err
		}
		if p.metrics, err = api.ServeMetrics(addr, keys, scrapes); err != nil {
			return err
		}
	}
	if s.API == NoAPI {
		return nil
	}
	content := api.Content{
		Status: func() (any, bool) { return p.Status() }, Starting: p.options.TrainerState, Metrics: scrapes,
		Events: p.recent.list, Node: p.commands,
	}
	if s.API == "" {
		err = p.serveSocket(keys, content)
	} else {
		err = p.serveAt(s.API, keys, content)
	}
	if err != nil {
		return err
	}
	p.apiText = map[string]string{
		TokenFile: keys.Token + "\n", APIFile: p.api.Addr().String() + "\n",
	}
	for name, text := range p.apiText { // only this user may read them
		if err := disk.Replace(disk.OS, filepath.Join(p.cfg.DataDir, name), []byte(text)); err != nil {
			return err
		}
	}
	return nil
}

func (p *Peer) serveAt(at string, keys api.Keys, c api.Content) error {
	addr, err := api.ParseAddress(at)
	if err == nil {
		p.api, err = api.Serve(addr, keys, c)
	}
	return err
}

// serveSocket serves the API on a socket in the data directory. Where none can be made there,
// because the path is too long or the file system has no sockets, it makes a directory for it.
func (p *Peer) serveSocket(keys api.Keys, c api.Content) error {
	dir, err := filepath.Abs(p.cfg.DataDir)
	if err != nil {
		return err
	}
	first := p.serveAt(api.Socket(filepath.Join(dir, SocketFile)), keys, c)
	if first == nil {
		return nil
	}
	base := os.Getenv("XDG_RUNTIME_DIR")
	if !filepath.IsAbs(base) {
		base = os.TempDir()
	}
	if p.socket, err = os.MkdirTemp(base, "p2pdiloco-"); err == nil { // for this user alone
		err = p.serveAt(api.Socket(filepath.Join(p.socket, SocketFile)), keys, c)
	}
	if err != nil {
		return errors.Join(first, err)
	}
	return nil
}

// maxToken bounds a token's file, in bytes.
const maxToken = 256

// keys are the tokens of requests to a HOST:PORT. That of the metrics stays the same over restarts,
// because it is written into the configuration of other programs.
func (p *Peer) keys(s *Settings) (keys api.Keys, err error) {
	keys = api.Keys{Token: api.NewToken(), OpenMetrics: p.inOpenRun}
	path := filepath.Join(p.cfg.DataDir, MetricsTokenFile)
	if s.Metrics != "" || s.API != "" && s.API != NoAPI {
		err = disk.Create(disk.OS, path, []byte(api.NewToken()+"\n"))
		if errors.Is(err, os.ErrExist) {
			err = nil
		}
		var text []byte
		if err == nil {
			text, err = disk.ReadSecret(disk.OS, path, maxToken)
		}
		keys.Metrics = strings.TrimSpace(string(text))
	}
	return keys, err
}

// inOpenRun says whether the run is known, and open to all.
func (p *Peer) inOpenRun() bool {
	s, ok := p.Status()
	return ok && s.Spec["access"] == p2pdiloco.AccessOpen
}

// endAPI ends what serve began, as far as it came. The files of another process stay: it may have
// taken the data directory since this one wrote there. While this one listens it has another
// address.
func (p *Peer) endAPI() error {
	var errs []error
	for name, text := range p.apiText {
		path := filepath.Join(p.cfg.DataDir, name)
		if now, err := os.ReadFile(path); err != nil || string(now) != text {
			continue
		}
		if err := os.Remove(path); !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	if p.api != nil {
		errs = append(errs, p.api.Close())
	}
	if p.metrics != nil {
		errs = append(errs, p.metrics.Close())
	}
	if p.socket != "" {
		errs = append(errs, os.RemoveAll(p.socket))
	}
	return errors.Join(errs...)
}

// commands is the API of the node, or the reason why there is none.
func (p *Peer) commands() (http.Handler, error) {
	select {
	case <-p.joined:
		if p.err != nil {
			return nil, p.err
		}
		return p.node.APIHandler(), nil
	default:
		return nil, errors.New("the peer is still looking for the run")
	}
}
