package bench

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http/httputil"
	"strconv"
	"time"
)

// maxAnswer bounds a body: the answers a buyer reads are a few hundred bytes.
const maxAnswer = 1 << 20

// answer is what the shop said. Body is good until the next answer on the connection.
type answer struct {
	status int
	body   []byte
	wait   time.Duration // Retry-After
	last   bool          // the server closes the connection

	encoding string // Content-Encoding
	sum      string // X-Captcha-Answer
}

// readAnswer reads one answer into buf, which grows as needed and is given back.
func readAnswer(r *bufio.Reader, buf []byte) (a answer, _ []byte, err error) {
	line, err := readLine(r)
	if err != nil {
		return a, buf, err
	}
	// HTTP/1.1 202 Accepted
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.")) || line[8] != ' ' || len(line) > 12 && line[12] != ' ' {
		return a, buf, errMalformed
	}
	status, ok := number(line[9:12])
	if !ok || status < 200 { // we ask for nothing that 1xx is for
		return a, buf, errMalformed
	}
	a.status, a.last = status, line[7] == '0'
	length, chunks := -1, false
	for {
		if line, err = readLine(r); err != nil {
			return a, buf, midway(err)
		}
		if len(line) == 0 {
			break
		}
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok {
			return a, buf, errMalformed
		}
		value = bytes.TrimSpace(value)
		switch {
		case is(name, "content-length"):
			n, ok := number(value)
			if !ok || n > maxAnswer || length >= 0 && n != length {
				return a, buf, errMalformed
			}
			length = n
		case is(name, "retry-after"):
			if n, ok := number(value); ok {
				a.wait = time.Duration(min(n, 60)) * time.Second
			}
		case is(name, "connection"):
			a.last = a.last || is(value, "close")
		case is(name, "content-encoding"):
			a.encoding = string(value)
		case is(name, "x-captcha-answer"):
			a.sum = string(value)
		case is(name, "transfer-encoding"):
			if chunks = is(value, "chunked"); !chunks {
				return a, buf, errMalformed
			}
		}
	}
	switch {
	case chunks && length < 0:
		a.body, err = readChunks(r, buf)
		return a, a.body, err
	case status == 204 || status == 304:
		length = 0
	case chunks || length < 0:
		return a, buf, errMalformed
	}
	if cap(buf) < length {
		buf = make([]byte, length)
	}
	a.body = buf[:length]
	if _, err := io.ReadFull(r, a.body); err != nil {
		return a, buf, midway(err)
	}
	return a, buf, nil
}

// readChunks reads a body that comes in pieces, into buf as far as that goes.
func readChunks(r *bufio.Reader, buf []byte) ([]byte, error) {
	whole := bytes.NewBuffer(buf[:0])
	if _, err := whole.ReadFrom(io.LimitReader(httputil.NewChunkedReader(r), maxAnswer+1)); err != nil {
		if err != io.ErrUnexpectedEOF && !isNet(err) {
			err = errMalformed
		}
		return nil, err
	}
	if whole.Len() > maxAnswer {
		return nil, errMalformed
	}
	for { // what may follow the last piece, up to an empty line
		line, err := readLine(r)
		if err != nil {
			return nil, midway(err)
		}
		if len(line) == 0 {
			return whole.Bytes(), nil
		}
	}
}

// isNet tells a fault of the connection from one of what came over it.
func isNet(err error) bool {
	var fault net.Error
	return errors.As(err, &fault)
}

// readLine reads to the line's end, which it takes off. A line longer than the reader's buffer is malformed.
func readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if err == bufio.ErrBufferFull {
		return nil, errMalformed
	}
	if err != nil {
		if len(line) > 0 {
			err = midway(err)
		}
		return nil, err
	}
	return bytes.TrimSuffix(line[:len(line)-1], []byte("\r")), nil
}

// midway makes of an end in the middle of an answer what it is: cut off.
func midway(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

func is(b []byte, lower string) bool {
	return len(b) == len(lower) && bytes.EqualFold(b, []byte(lower))
}

// number reads up to nine digits.
func number(b []byte) (n int, ok bool) {
	if len(b) == 0 || len(b) > 9 {
		return 0, false
	}
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, true
}

// field gives the text or number of a key that an answer has once, nil without it. It looks for `"key":` as the shop
// writes it, which is several times cheaper than to parse JSON; inside a text the quotes would have backslashes.
func field(body []byte, key string) []byte {
	var quoted [32]byte
	k := append(strconv.AppendQuote(quoted[:0], key), ':')
	i := bytes.Index(body, k)
	if i < 0 {
		return nil
	}
	v := body[i+len(k):]
	if len(v) > 0 && v[0] == '"' {
		if end := bytes.IndexByte(v[1:], '"'); end >= 0 {
			return v[1 : 1+end]
		}
		return nil
	}
	if end := bytes.IndexAny(v, ",}"); end >= 0 {
		return v[:end]
	}
	return nil
}
