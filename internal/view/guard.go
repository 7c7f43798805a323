package view

import (
	"crypto/subtle"
	"net/http"
)

// policy lets the page load what this server serves, and nothing else: no script inside the page,
// no text made into markup (Trusted Types), no frame around it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; " +
	"trusted-types 'none'"

func withHeaders(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range map[string]string{
			"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
			"Cross-Origin-Resource-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin",
			"Cache-Control": "no-store",
		} {
			w.Header().Set(name, value)
		}
		h.ServeHTTP(w, r)
	})
}

// guard serves requests of the page that bear the key, or all of them where open says so.
func (s *PageServer) guard(open func() bool, h http.HandlerFunc) http.HandlerFunc {
	return ownPage(func(w http.ResponseWriter, r *http.Request) {
		if !open() && !s.hasKey(r) {
			http.Error(w, "this needs the key: open the address that p2pdiloco dashboard, or join --dashboard, has "+
				"printed, with what stands behind its #", http.StatusUnauthorized)
			return
		}
		h(w, r)
	})
}

// isOpen says whether everybody on this machine may read. Nobody may while the run is not known.
func (s *PageServer) isOpen() (open bool) {
	s.watcher.Look(func(n *Newest) { open = n.Known && !n.Run.Private })
	return open
}

func (s *PageServer) hasKey(r *http.Request) bool {
	return subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte("Bearer "+s.key)) == 1
}

// ownPage refuses what pages from elsewhere make a browser ask.
func ownPage(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		site, origin := r.Header.Get("Sec-Fetch-Site"), r.Header.Get("Origin")
		if site != "" && site != "same-origin" && site != "none" || origin != "" && origin != "http://"+r.Host {
			http.Error(w, "only the page itself may ask this", http.StatusForbidden)
			return
		}
		h(w, r)
	}
}
