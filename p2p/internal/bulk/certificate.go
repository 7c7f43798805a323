package bulk

import (
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	libp2ptls "github.com/libp2p/go-libp2p/p2p/security/tls"
)

// A certificate binds a key of one process to a peer ID and says nothing else, so it holds at all
// times. Those that libp2p makes begin one hour before the time of their maker's clock: all others
// would refuse a peer whose clock is further ahead than that, and would tell it so only after its
// own side of the handshake had succeeded.
var (
	certifiedFrom = time.Unix(0, 0) // of a machine without a clock battery, too
	// RFC 5280, 4.1.2.5, has this value for a certificate without an end.
	certifiedUntil = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
)

const serialBits = 62

// Certified has a TLS certificate of libp2p hold at all times, whatever this machine's clock says.
// The option is for one identity: libp2p writes into it.
func Certified() (libp2ptls.IdentityOption, error) {
	limit := new(big.Int).Lsh(big.NewInt(1), serialBits)
	serial, err := rand.Int(rand.Reader, limit)
	if err != nil {
		return nil, err
	}
	subject, err := rand.Int(rand.Reader, limit)
	if err != nil {
		return nil, err
	}
	return libp2ptls.WithCertTemplate(&x509.Certificate{
		SerialNumber: serial, NotBefore: certifiedFrom, NotAfter: certifiedUntil,
		Subject: pkix.Name{SerialNumber: subject.String()},
	}), nil
}

// NewIdentity is what secures TLS connections with a peer's key, whatever this machine's clock
// says.
func NewIdentity(key crypto.PrivKey) (*libp2ptls.Identity, error) {
	certified, err := Certified()
	if err != nil {
		return nil, err
	}
	return libp2ptls.NewIdentity(key, certified)
}

// Proven is whose key a handshake has proved, by the channel that libp2ptls.ConfigForPeer returned.
func Proven(keys <-chan crypto.PubKey) (id peer.ID, key crypto.PubKey, err error) {
	select {
	case key = <-keys:
	default:
	}
	if key == nil {
		return "", nil, errors.New("the other side proved no identity")
	}
	id, err = peer.IDFromPublicKey(key)
	return id, key, err
}
