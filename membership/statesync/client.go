package statesync

// Client fetches states and outcomes. Its methods may be called from any goroutine. Each of them
// waits for the goroutines that it started.
type Client struct {
	cfg  Config
	dial dialer
}

// NewClient makes a client. It holds nothing that needs closing.
func NewClient(open Opener, cfg Config) *Client {
	cfg = cfg.withDefaults()
	return &Client{cfg: cfg, dial: dialer{open: open, zip: newZip(), timeout: cfg.Timeout}}
}
