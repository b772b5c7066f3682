package web

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"
)

// certificate is the certificate in the files of --tls-cert and --tls-key. Both are read again every few seconds, so
// that one which a program renews is served without a restart. A pair that cannot be used changes nothing.
type certificate struct {
	certFile, keyFile string
	current           atomic.Pointer[tls.Certificate]

	// Of the goroutine that looks at the files.
	seen   [2][]byte // the files as they were read last
	unfit  error     // why they cannot be used; nil if they can
	failed string    // the error of the last look; "" for none
	state  string    // what was last logged of the current one's time: see stateAt
	told   time.Time
}

const (
	lookEvery = 5 * time.Second
	tellEvery = 24 * time.Hour      // of a certificate that has expired or soon will have
	expiring  = 14 * 24 * time.Hour // before its end, or a quarter of the life of one with a short life
)

func openCertificate(certFile, keyFile string) (*certificate, error) {
	c := &certificate{certFile: certFile, keyFile: keyFile}
	_, err := c.read()
	return c, err
}

// read reads the files and takes their certificate, unless they are those that were read last.
func (c *certificate) read() (changed bool, err error) {
	cert, err1 := os.ReadFile(c.certFile)
	key, err2 := os.ReadFile(c.keyFile)
	if err := errors.Join(err1, err2); err != nil {
		return false, err
	}
	if bytes.Equal(cert, c.seen[0]) && bytes.Equal(key, c.seen[1]) {
		return false, c.unfit
	}
	c.seen = [2][]byte{cert, key}
	pair, err := tls.X509KeyPair(cert, key)
	if c.unfit = err; err == nil {
		c.current.Store(&pair)
	}
	return true, err
}

// run looks at the files now and then, and at once when reload receives a signal, until ctx ends.
func (c *certificate) run(ctx context.Context, reload <-chan os.Signal, log *slog.Logger) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for c.tell(time.Now(), log); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			c.look(time.Now(), false, log)
		case <-reload:
			c.look(time.Now(), true, log)
		}
	}
}

// look reads the files and logs what is new. If it was asked for, it also logs that nothing is.
func (c *certificate) look(now time.Time, asked bool, log *slog.Logger) {
	changed, err := c.read()
	switch {
	case err != nil && (asked || changed || err.Error() != c.failed):
		log.Warn("the new TLS certificate cannot be used, so the old one is served on (--tls-cert, --tls-key)", "err",
			err, "old_expires", c.current.Load().Leaf.NotAfter)
	case err == nil && changed:
		log.Info("a new TLS certificate is served", "expires", c.current.Load().Leaf.NotAfter)
		c.state = ""
	case err == nil && asked:
		log.Info("the TLS certificate has not changed", "expires", c.current.Load().Leaf.NotAfter)
	}
	if c.failed = ""; err != nil {
		c.failed = err.Error()
	}
	c.tell(now, log)
}

// tell logs, once a day, that browsers refuse the certificate or soon will.
func (c *certificate) tell(now time.Time, log *slog.Logger) {
	leaf := c.current.Load().Leaf
	state := ""
	switch {
	case now.After(leaf.NotAfter):
		state = "has expired, and browsers refuse it"
	case now.Before(leaf.NotBefore):
		state = "is not valid yet, and browsers refuse it"
	case leaf.NotAfter.Sub(now) < min(expiring, leaf.NotAfter.Sub(leaf.NotBefore)/4):
		state = "expires soon"
	}
	if state != "" && (state != c.state || now.Sub(c.told) >= tellEvery) {
		log.Warn(fmt.Sprintf(
			"the TLS certificate %s: replace the files of --tls-cert and --tls-key, which are then served without a restart",
			state),
			"file", c.certFile, "not_before", leaf.NotBefore, "expires", leaf.NotAfter)
		c.told = now
	}
	c.state = state
}
