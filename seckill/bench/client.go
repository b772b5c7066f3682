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

// responseLimit is how long a buyer waits for one response.
const responseLimit = 10 * time.Second

var (
	errMalformed = errors.New("not an HTTP/1.1 response with a length")
	errConnect   = errors.New("no connection")
)

// client is one keep-alive connection, opened again after a fault. It is for one goroutine.
type client struct {
	to       target
	conn     net.Conn
	reader   bufio.Reader
	buf      []byte
	lastUsed time.Time
}

// idleLimit is how long a connection may be idle before it is replaced. A server closes idle
// connections, and a request sent at that moment would be lost through no fault of the shop.
const idleLimit = 3 * time.Second

// connect opens the connection if it is not open.
func (w *client) connect(ctx context.Context) (err error) {
	if w.conn != nil && time.Since(w.lastUsed) > idleLimit {
		w.close()
	}
	if w.conn != nil {
		return nil
	}
	if w.conn, err = w.to.dial(ctx); err != nil {
		w.conn = nil
		return fmt.Errorf("%w: %w", errConnect, err)
	}
	w.lastUsed = time.Now()
	w.reader.Reset(w.conn)
	return nil
}

// do sends a whole request and reads the response. After an error the connection is closed.
func (w *client) do(ctx context.Context, request []byte, limit time.Duration) (resp response, err error) {
	if err = w.connect(ctx); err != nil {
		return resp, err
	}
	defer func() {
		if err != nil || resp.closing {
			w.close()
		}
	}()
	w.lastUsed = time.Now()
	if err = w.conn.SetDeadline(w.lastUsed.Add(limit)); err != nil {
		return resp, err
	}
	if _, err = w.conn.Write(request); err != nil {
		return resp, err
	}
	resp, w.buf, err = readResponse(&w.reader, w.buf)
	return resp, err
}

func (w *client) close() {
	if w.conn != nil {
		w.conn.Close()
		w.conn = nil
	}
}

// faultKind names the fault for counting. The names are keys of the JSON report.
func faultKind(err error) string {
	switch {
	case errors.Is(err, errConnect):
		return "no connection"
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "timeout"
	case errors.Is(err, errMalformed):
		return "malformed answer"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET),
		errors.Is(err, syscall.EPIPE):
		return "cut off"
	}
	return "other fault"
}
