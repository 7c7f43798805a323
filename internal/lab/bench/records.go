package bench

import (
	"bufio"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
)

// As a bulk connection of p2p has it, full records leave and arrive eight at a time.
const (
	recordBytes = 16<<10 + 22 // of TLS, with header, content type and tag
	socketBytes = 8 * recordBytes
)

// records lies between TLS and a TCP connection.
type records struct {
	net.Conn
	in  *bufio.Reader
	out *bufio.Writer
}

func newRecords(c net.Conn) records {
	return records{c, bufio.NewReaderSize(c, socketBytes), bufio.NewWriterSize(c, socketBytes)}
}

func (r records) Read(b []byte) (int, error) { return r.in.Read(b) }

// Write has full records wait for others, or for one that is not full.
func (r records) Write(b []byte) (n int, err error) {
	if n, err = r.out.Write(b); len(b) < recordBytes {
		err = errors.Join(err, r.out.Flush())
	}
	return n, err
}

// tlsPair is both ends of a connection over loopback, of TLS 1.3 with the cipher that crypto/tls
// prefers: AES-128-GCM where the processor has instructions for it.
func tlsPair() (near, far *tls.Conn, err error) {
	public, private, _ := ed25519.GenerateKey(nil) // the system's randomness does not fail
	template := &x509.Certificate{}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	l, err2 := net.Listen("tcp", "127.0.0.1:0")
	if err := errors.Join(err, err2); err != nil {
		return nil, nil, err
	}
	cfg := &tls.Config{
		Certificates:                []tls.Certificate{{Certificate: [][]byte{certificate}, PrivateKey: private}},
		InsecureSkipVerify:          true, // both ends are here
		DynamicRecordSizingDisabled: true,
	}
	defer l.Close() //nolint:errcheck // one connection is enough
	dialled, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return nil, nil, err
	}
	accepted, err := l.Accept()
	if err != nil {
		return nil, nil, err
	}
	near, far = tls.Client(newRecords(dialled), cfg), tls.Server(newRecords(accepted), cfg)
	go far.Handshake() //nolint:errcheck // the other side and all that follows fail, too
	return near, far, near.Handshake()
}

// sendRecords sends data and reads it. Its last byte has a record of its own, for which none waits.
func sendRecords(near, far *tls.Conn, data, into []byte) error {
	done := make(chan error, 1)
	go func() {
		last := len(data) - 1
		_, err := near.Write(data[:last])
		_, err2 := near.Write(data[last:])
		done <- errors.Join(err, err2)
	}()
	_, err := io.ReadFull(far, into)
	return errors.Join(err, <-done)
}
