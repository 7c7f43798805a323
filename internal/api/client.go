package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	clientTimeout = 5 * time.Second
	maxStatus     = 8 << 20 // bytes; a run of 1024 members takes about 300 kB
)

// Client asks a peer. One at a HOST:PORT wants its token.
type Client struct {
	Addr  Address
	Token string
}

// Get asks the peer for its status and decodes it into status, a pointer to what that peer serves.
// It returns the JSON unchanged.
func (c Client) Get(ctx context.Context, status any) ([]byte, error) {
	return c.call(ctx, clientTimeout, http.MethodGet, "/status", status)
}

// Events asks for the events after those that an earlier answer had.
func (c Client) Events(ctx context.Context, after uint64) (r Recent, err error) {
	_, err = c.call(ctx, clientTimeout, http.MethodGet, fmt.Sprintf("/events?after=%d", after), &r)
	return r, err
}

// Invite asks for a ticket.
func (c Client) Invite(ctx context.Context, i Invitation) (string, error) {
	q := url.Values{"ttl": {i.TTL.String()}, "uses": {strconv.Itoa(i.Uses)}}.Encode()
	text, err := c.call(ctx, clientTimeout, http.MethodPost, "/invite?"+q, nil)
	return strings.TrimSpace(string(text)), err
}

// Move gives the peer a motion.
func (c Client) Move(ctx context.Context, action, peer string) error {
	q := url.Values{"action": {action}, "peer": {peer}}.Encode()
	_, err := c.call(ctx, clientTimeout, http.MethodPost, "/change?"+q, nil)
	return err
}

// Recover makes the peer go on without a quorum.
func (c Client) Recover(ctx context.Context) error {
	_, err := c.call(ctx, clientTimeout, http.MethodPost, "/recover", nil)
	return err
}

// Probe makes the peer probe its members, and decodes the result.
func (c Client) Probe(ctx context.Context, result any) error {
	_, err := c.call(ctx, probeTimeout+clientTimeout, http.MethodPost, "/probe", result)
	return err
}

// Ask has the peer's model go on with a prompt. It waits for the next round to begin, or until ctx
// ends.
func (c Client) Ask(ctx context.Context, prompt string) (a Answer, err error) {
	_, err = c.call(ctx, 0, http.MethodPost, "/ask?"+url.Values{"prompt": {prompt}}.Encode(), &a)
	return a, err
}

// call sends a request, which may take so long, or for ever with 0, and decodes the answer unless
// result is nil.
func (c Client) call(
	ctx context.Context, most time.Duration, method, path string, result any,
) (b []byte, err error) {
	if most > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, most)
		defer cancel()
	}
	if b, err = c.ask(ctx, method, path); err == nil && result != nil {
		err = json.Unmarshal(b, result)
	}
	if err != nil {
		return nil, addAddress(c.Addr, err)
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
	_, waits := errors.AsType[notReady](err)
	timeout, ok := errors.AsType[net.Error](err)
	return waits || errors.Is(err, ErrToken) || ok && timeout.Timeout()
}

// maxRefusal bounds that text, in bytes.
const maxRefusal = 1 << 10

// addAddress adds the address of the API to an error, unless the error is a refusal.
func addAddress(addr Address, err error) error {
	switch err.(type) { //nolint:errorlint // as ask makes them
	case refusal, notReady:
		return err
	}
	if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("no peer listens at %s, where its API was: it has ended or crashed. Start it again as "+
			"before, with its data directory: p2pdiloco join --data-dir DIR (%w)", addr, err)
	}
	return fmt.Errorf("status API at %s: %w", addr, err)
}

// request sends a request, whose answer the caller closes.
func (c Client) request(ctx context.Context, method, path string) (*http.Response, error) {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, c.Addr.network, c.Addr.place)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://localhost"+path, nil)
	if err != nil {
		return nil, err
	}
	if c.Token != "" {
		req.Header.Set("Authorization", bearer+c.Token)
	}
	// the connection ends with the answer
	t := &http.Transport{DialContext: dial, DisableKeepAlives: true, Proxy: nil}
	return (&http.Client{Transport: t}).Do(req)
}

func (c Client) ask(ctx context.Context, method, path string) ([]byte, error) {
	resp, err := c.request(ctx, method, path)
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
