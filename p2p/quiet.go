package p2p

import (
	"log/slog"
	"os"

	golog "github.com/ipfs/go-log/v2"
	"github.com/libp2p/go-libp2p/gologshim"
)

// Quiet keeps what libp2p and its DHT would log by themselves off standard error: for a library in
// a host process that did not ask for it. It must be called before the first network is made. A
// user that sets GOLOG_LOG_LEVEL has asked for it.
func Quiet() {
	if _, asked := os.LookupEnv("GOLOG_LOG_LEVEL"); asked {
		return
	}
	gologshim.SetDefaultHandler(slog.DiscardHandler)
	golog.SetupLogging(golog.Config{Level: golog.LevelFatal})
}
