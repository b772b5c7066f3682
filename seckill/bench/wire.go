package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

// answerLimit is how long a buyer waits for one answer.
const answerLimit = 10 * time.Second

var (
	errMalformed = errors.New("bench: not an answer of HTTP/1.1 with a Content-Length")
	errConnect   = errors.New("bench: no connection")
)

// wire is one keep-alive connection, opened when first needed and again after a fault. For one goroutine.
type wire struct {
	to  target
	c   net.Conn
	r   *bufio.Reader
	buf []byte
	at  time.Time // when it was last of use
}

// stale is how long a connection may lie idle: a server closes one that says nothing for a while, and a request sent at
// that moment would be lost without anybody's fault.
const stale = 3 * time.Second

// open connects unless it is connected.
func (w *wire) open(ctx context.Context) (err error) {
	if w.c != nil && time.Since(w.at) > stale {
		w.close()
	}
	if w.c != nil {
		return nil
	}
	if w.c, err = w.to.dial(ctx); err != nil {
		w.c = nil
		return fmt.Errorf("%w: %w", errConnect, err)
	}
	w.at = time.Now()
	if w.r == nil {
		w.r = bufio.NewReader(nil)
	}
	w.r.Reset(w.c)
	return nil
}

// ask sends a whole request and reads its answer. After an error the connection is gone.
func (w *wire) ask(ctx context.Context, request []byte, limit time.Duration) (a answer, err error) {
	if err = w.open(ctx); err != nil {
		return a, err
	}
	defer func() {
		if err != nil || a.last {
			w.close()
		}
	}()
	w.at = time.Now()
	if err = w.c.SetDeadline(w.at.Add(limit)); err != nil {
		return a, err
	}
	if _, err = w.c.Write(request); err != nil {
		return a, err
	}
	a, w.buf, err = readAnswer(w.r, w.buf)
	return a, err
}

func (w *wire) close() {
	if w.c != nil {
		w.c.Close()
		w.c = nil
	}
}

// kind names a fault, so that faults can be counted.
func kind(err error) string {
	switch {
	case errors.Is(err, errConnect):
		return "no connection"
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "timeout"
	case errors.Is(err, errMalformed):
		return "malformed answer"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "cut off"
	}
	return "other fault"
}
