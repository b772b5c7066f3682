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

// maxBody bounds the body of a response: those that a buyer reads have a few hundred bytes.
const maxBody = 1 << 20

// response is one HTTP response of the shop. body is valid until the next response on the connection.
type response struct {
	status     int
	body       []byte
	retryAfter time.Duration // Retry-After; at most a minute
	closing    bool          // the server closes the connection

	encoding      string // Content-Encoding
	captchaAnswer string // X-Captcha-Answer
}

// readResponse reads one response into buf. It returns buf, or a larger one, for the next response.
func readResponse(r *bufio.Reader, buf []byte) (resp response, _ []byte, err error) {
	line, err := readLine(r)
	if err != nil {
		return resp, buf, err
	}
	// HTTP/1.1 202 Accepted
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.")) || line[8] != ' ' || len(line) > 12 &&
		line[12] != ' ' {
		return resp, buf, errMalformed
	}
	status, ok := parseNumber(line[9:12])
	if !ok || status < 200 { // no request asks for a 1xx
		return resp, buf, errMalformed
	}
	resp.status, resp.closing = status, line[7] == '0'
	length, chunks := -1, false
	for {
		if line, err = readLine(r); err != nil {
			return resp, buf, unexpectedEOF(err)
		}
		if len(line) == 0 {
			break
		}
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok {
			return resp, buf, errMalformed
		}
		value = bytes.TrimSpace(value)
		switch {
		case equalFold(name, "content-length"):
			n, ok := parseNumber(value)
			if !ok || n > maxBody || length >= 0 && n != length {
				return resp, buf, errMalformed
			}
			length = n
		case equalFold(name, "retry-after"):
			if n, ok := parseNumber(value); ok {
				resp.retryAfter = time.Duration(min(n, 60)) * time.Second
			}
		case equalFold(name, "connection"):
			resp.closing = resp.closing || equalFold(value, "close")
		case equalFold(name, "content-encoding"):
			resp.encoding = string(value)
		case equalFold(name, "x-captcha-answer"):
			resp.captchaAnswer = string(value)
		case equalFold(name, "transfer-encoding"):
			if chunks = equalFold(value, "chunked"); !chunks {
				return resp, buf, errMalformed
			}
		}
	}
	switch {
	case chunks && length < 0:
		resp.body, err = readChunks(r, buf)
		return resp, resp.body, err
	case status == 204 || status == 304:
		length = 0
	case chunks || length < 0:
		return resp, buf, errMalformed
	}
	if cap(buf) < length {
		buf = make([]byte, length)
	}
	resp.body = buf[:length]
	if _, err := io.ReadFull(r, resp.body); err != nil {
		return resp, buf, unexpectedEOF(err)
	}
	return resp, buf, nil
}

// readChunks reads a chunked body into buf, or into a larger buffer.
func readChunks(r *bufio.Reader, buf []byte) ([]byte, error) {
	whole := bytes.NewBuffer(buf[:0])
	if _, err := whole.ReadFrom(io.LimitReader(httputil.NewChunkedReader(r), maxBody+1)); err != nil {
		if _, broken := errors.AsType[net.Error](err); err != io.ErrUnexpectedEOF && !broken {
			err = errMalformed // the data, not the connection
		}
		return nil, err
	}
	if whole.Len() > maxBody {
		return nil, errMalformed
	}
	for { // trailers, up to an empty line
		line, err := readLine(r)
		if err != nil {
			return nil, unexpectedEOF(err)
		}
		if len(line) == 0 {
			return whole.Bytes(), nil
		}
	}
}

// readLine returns the next line without its end. A line longer than the reader's buffer is malformed.
func readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if err == bufio.ErrBufferFull {
		return nil, errMalformed
	}
	if err != nil {
		if len(line) > 0 {
			err = unexpectedEOF(err)
		}
		return nil, err
	}
	return bytes.TrimSuffix(line[:len(line)-1], []byte("\r")), nil
}

// unexpectedEOF replaces io.EOF in the middle of a response by io.ErrUnexpectedEOF.
func unexpectedEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

func equalFold(b []byte, lower string) bool {
	return len(b) == len(lower) && bytes.EqualFold(b, []byte(lower))
}

// parseNumber parses up to nine digits.
func parseNumber(b []byte) (n int, ok bool) {
	if len(b) > 9 {
		return 0, false
	}
	u, err := strconv.ParseUint(string(b), 10, 32)
	return int(u), err == nil
}

// jsonValue returns the text or number of a key that occurs once in body, or nil. It searches for
// `"key":` as the shop writes it, several times cheaper than to parse the JSON. In a string value
// the quotes would be escaped.
func jsonValue(body []byte, key string) []byte {
	var buf [32]byte
	k := append(strconv.AppendQuote(buf[:0], key), ':')
	_, v, _ := bytes.Cut(body, k)
	end := bytes.IndexAny(v, ",}")
	if text, quoted := bytes.CutPrefix(v, []byte(`"`)); quoted {
		v, end = text, bytes.IndexByte(text, '"')
	}
	if end < 0 {
		return nil
	}
	return v[:end]
}
