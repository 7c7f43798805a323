package p2p_test

import (
	"context"
	"fmt"
	"log"

	"github.com/libp2p/go-libp2p"

	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// A program that has a libp2p host already lends it: the run's protocols are served beside the
// program's own, and the host stays open when the Network is closed.
func ExampleWithHost() {
	host, err := libp2p.New(libp2p.ListenAddrStrings("/ip4/127.0.0.1/tcp/0"))
	if err != nil {
		log.Fatal(err)
	}
	defer host.Close()
	network, err := p2p.New(context.Background(), p2p.LAN(), p2p.WithHost(host))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(network.ID().String() == host.ID().String(), len(network.Addrs()))
	if err := network.Close(); err != nil { // p2pdiloco.Config.Network takes it before that
		log.Fatal(err)
	}
	fmt.Println(len(host.Addrs()))
	// Output:
	// true 1
	// 1
}
