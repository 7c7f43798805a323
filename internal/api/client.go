package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"
)

const (
	clientTimeout = 5 * time.Second
	maxStatus     = 8 << 20 // bytes; a run of 1024 members takes about 300 kB
)

// Get asks the peer at addr for its status and decodes it into status, a pointer to what that peer
// serves. It returns the JSON unchanged. A peer at a HOST:PORT asks for its token.
func Get(ctx context.Context, addr Address, token string, status any) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, clientTimeout)
	defer cancel()
	b, err := ask(ctx, addr, http.MethodGet, "/status", token)
	if err != nil {
		return nil, at(addr, err)
	}
	if err := json.Unmarshal(b, status); err != nil {
		return nil, fmt.Errorf("status API at %s: not a status: %w", addr, err)
	}
	return b, nil
}

// ErrToken is what a peer at a HOST:PORT answers to a request without its token.
var ErrToken = errors.New("401: the peer wants the token in its data directory: name that with --data-dir, as the " +
	"user whose peer it is")

// refusal is the reason that a peer gives for refusing a command.
type refusal string

func (r refusal) Error() string { return "the peer refuses: " + string(r) }

// notReady is what a peer says that has no status yet.
type notReady string

func (r notReady) Error() string { return string(r) }

// Runs says whether an error of Get is one of a peer that runs: it is starting, it hangs, or it
// wants a token. Else nobody listens, or something that is no peer.
func Runs(err error) bool {
	waits, timeout := notReady(""), net.Error(nil)
	return errors.As(err, &waits) || errors.Is(err, ErrToken) || errors.As(err, &timeout) && timeout.Timeout()
}

// maxRefusal bounds that text, in bytes.
const maxRefusal = 1 << 10

// at adds the address of the API to an error, unless the error is a refusal.
func at(addr Address, err error) error {
	if r := refusal(""); errors.As(err, &r) {
		return r
	}
	if r := notReady(""); errors.As(err, &r) {
		return r
	}
	if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("no peer listens at %s, where its API was: it has ended or crashed. Start it again as "+
			"before, with its data directory: p2pdiloco join --data-dir DIR (%w)", addr, err)
	}
	return fmt.Errorf("status API at %s: %w", addr, err)
}

// request sends a request, whose answer the caller closes.
func request(ctx context.Context, addr Address, method, path, token string) (*http.Response, error) {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, addr.network, addr.place)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://localhost"+path, nil)
	if err != nil {
		return nil, err
	}
	if token != "" {
		req.Header.Set("Authorization", bearer+token)
	}
	// the connection ends with the answer
	t := &http.Transport{DialContext: dial, DisableKeepAlives: true, Proxy: nil}
	return (&http.Client{Transport: t}).Do(req)
}

func ask(ctx context.Context, addr Address, method, path, token string) ([]byte, error) {
	resp, err := request(ctx, addr, method, path, token)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxStatus+1))
	switch {
	case err != nil:
		return nil, err
	case len(b) > maxStatus:
		return nil, fmt.Errorf("an answer of more than %d bytes", maxStatus)
	case resp.StatusCode == http.StatusUnauthorized:
		return nil, ErrToken
	case resp.StatusCode == http.StatusConflict:
		return nil, refusal(reason(b))
	case resp.StatusCode == http.StatusServiceUnavailable:
		return nil, notReady(reason(b))
	case resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusAccepted:
		return nil, fmt.Errorf("%s: %.200s", resp.Status, strings.TrimSpace(string(b)))
	}
	return b, nil
}

// reason is what a peer says for people.
func reason(b []byte) string {
	return strings.TrimPrefix(strings.TrimSpace(string(b[:min(len(b), maxRefusal)])), "p2pdiloco: ")
}
