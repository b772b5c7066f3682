package seckill

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha1"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"miaosha/goods"
)

// request is one request of a client that has arrived at a store. The store carries it out when the
// simulation says so.
type request struct {
	conn    *wire
	what    string             // for the trace
	key     string             // what, with its arguments
	run     func() (wait bool) // carries it out and writes the reply, or reports that it must wait for a lock
	refuse  func(text string)  // writes an error reply instead
	end     func()             // ends the session after the client has gone; only Postgres has one
	lasting bool               // carrying it out makes changes last: a write to Redis, a COMMIT
	reply   chan error         // the error that the client reads instead of a reply, or nil
	since   time.Time          // when it arrived
	turn    int                // of the simulation
	stalled bool               // it is seldom chosen

	lockWait time.Duration // of its transaction
	task     *simTask      // that sent it
}

// wire is the client's end of a connection to a simulated store. It has no socket and no goroutine:
// a client that reads the reply carries the request to the store.
type wire struct {
	in, out  bytes.Buffer
	serve    func() error // takes a request from in; its reply is in out when it returns
	arrive   func(*request) error
	closed   func()
	broken   error
	deadline atomic.Int64 // in nanoseconds since 1970; 0 for none
	process  *simProcess
}

func (c *wire) Write(b []byte) (int, error) {
	if c.broken != nil {
		return 0, c.broken
	}
	return c.in.Write(b)
}

func (c *wire) Read(b []byte) (int, error) {
	for c.out.Len() == 0 {
		switch {
		case c.broken != nil:
			return 0, c.broken
		case c.in.Len() == 0:
			return 0, io.EOF // the client has said goodbye
		}
		if err := c.serve(); err != nil {
			c.broken = err
		}
	}
	return c.out.Read(b)
}

func (c *wire) Close() error {
	if c.closed != nil {
		c.closed()
		c.closed = nil
	}
	return nil
}

func (c *wire) LocalAddr() net.Addr                { return &net.UnixAddr{Name: "simulation"} }
func (c *wire) RemoteAddr() net.Addr               { return &net.UnixAddr{Name: "simulation"} }
func (c *wire) SetWriteDeadline(t time.Time) error { return nil }
func (c *wire) SetDeadline(t time.Time) error      { return c.SetReadDeadline(t) }

func (c *wire) SetReadDeadline(t time.Time) error {
	if t.IsZero() {
		c.deadline.Store(0)
	} else {
		c.deadline.Store(t.UnixNano())
	}
	return nil
}

// late reports whether the client has stopped to wait for a reply.
func (c *wire) late() bool {
	deadline := c.deadline.Load()
	return deadline != 0 && time.Now().UnixNano() >= deadline
}

// The errors that a client reads when a connection breaks.
var (
	errNoReply = &net.OpError{Op: "read", Net: "simulation", Err: os.ErrDeadlineExceeded}
	errReset   = &net.OpError{Op: "read", Net: "simulation", Err: syscall.ECONNRESET}
	errRefused = &net.OpError{Op: "dial", Net: "simulation", Err: syscall.ECONNREFUSED}
)

// do carries a request out at once, or when the simulation says so.
func (c *wire) do(r *request) error {
	r.conn = c
	if c.arrive != nil {
		return c.arrive(r)
	}
	if r.run() {
		panic("a statement waits for a lock that is never released: " + r.what)
	}
	return nil
}

// Redis --------------------------------------------------------------------------------

// redisServer is the Redis of a simulation. It is the in-process Redis of the sandbox, so the
// scripts are the real ones.
type redisServer struct {
	*miniredis.Miniredis
	log     []redisCall       // the calls that may have written, since Redis was last empty
	scripts map[string]string // the name of each script that was sent, by its SHA-1
}

type redisCall struct {
	at   time.Time
	args []string
}

func newRedisServer() *redisServer {
	s := &redisServer{Miniredis: miniredis.NewMiniRedis(), scripts: map[string]string{}}
	c, _ := s.Dial() // starts it, without a listener
	c.Close()
	return s
}

// reads are the commands that write nothing.
var reads = map[string]bool{"HELLO": true, "CLIENT": true, "PING": true, "SELECT": true, "TIME": true, "HMGET": true, "XLEN": true,
	"XRANGE": true, "HGETALL": true, "HSCAN": true}

func (s *redisServer) call(peer *server.Peer, args []string) {
	if !reads[strings.ToUpper(args[0])] {
		s.log = append(s.log, redisCall{time.Now(), args})
	}
	s.Server().Dispatch(peer, args)
	peer.Flush()
}

// restore sets Redis back to the state after the first n calls of its log: an older snapshot. With
// 0 it is empty. The scripts are gone too, as after a restart: what failed for the lack of a script
// fails again.
func (s *redisServer) restore(n int) {
	s.FlushAll()
	log := s.log[:n]
	s.log = nil
	peer := server.NewPeer(bufio.NewWriter(io.Discard))
	s.Server().Dispatch(peer, []string{"SCRIPT", "FLUSH"})
	for _, c := range log {
		s.SetTime(c.at)
		s.Server().Dispatch(peer, c.args)
		s.log = append(s.log, c)
	}
	s.SetTime(time.Time{})
}

// dial returns a connection to this Redis.
func (s *redisServer) dial(p *simProcess, arrive func(*request) error) *wire {
	c := &wire{process: p, arrive: arrive}
	peer := server.NewPeer(bufio.NewWriter(&c.out))
	c.serve = func() error {
		args, err := readCommand(&c.in)
		if err != nil {
			return err
		}
		name := strings.ToUpper(args[0])
		run := func() bool { s.call(peer, args); return false }
		switch name {
		case "HELLO", "CLIENT", "PING", "SELECT":
			run()
			return nil
		}
		what := name
		if strings.HasPrefix(name, "EVAL") {
			what = s.scriptName(args)
		}
		return c.do(&request{what: what, key: strings.Join(args, " "), run: run, lasting: !reads[name],
			refuse: func(text string) { fmt.Fprintf(&c.out, "-%s\r\n", text) }})
	}
	return c
}

// scriptName returns the name in the first line of a script, once it has been sent whole.
func (s *redisServer) scriptName(args []string) string {
	if strings.EqualFold(args[0], "EVAL") {
		first, _, _ := strings.Cut(args[1], "\n")
		name, _, _ := strings.Cut(strings.TrimPrefix(first, "-- "), ":")
		s.scripts[fmt.Sprintf("%x", sha1.Sum([]byte(args[1])))] = name
		return name
	}
	return cmp.Or(s.scripts[args[1]], "an unknown script")
}

// readCommand reads one command of the Redis protocol.
func readCommand(in *bytes.Buffer) ([]string, error) {
	number := func() (int, error) {
		line, err := in.ReadString('\n')
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(strings.TrimSpace(line[1:]))
	}
	n, err := number()
	if err != nil {
		return nil, err
	}
	args := make([]string, n)
	for i := range args {
		size, err := number()
		if err != nil {
			return nil, err
		}
		args[i] = string(in.Next(size))
		in.Next(2)
	}
	return args, nil
}

// newRedisClient returns a client with the shop's settings. It does not wait before it tries again,
// because the time would be random.
func newRedisClient(dial func() (net.Conn, error)) *redis.Client {
	return redis.NewClient(&redis.Options{
		Dialer:                func(context.Context, string, string) (net.Conn, error) { return dial() },
		ContextTimeoutEnabled: true, DialerRetries: 1, MaxRetries: 1, MinRetryBackoff: -1, MaxRetryBackoff: -1,
		DialTimeout: time.Second, ReadTimeout: 300 * time.Millisecond, WriteTimeout: 300 * time.Millisecond,
		PoolTimeout: 300 * time.Millisecond, PoolSize: 64, ConnMaxIdleTime: -1, DisableIdentity: true, Protocol: 2,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}

// Postgres -----------------------------------------------------------------------------

// pgSession is the server's end of a connection to the model of Postgres.
type pgSession struct {
	*wire
	model   *pgModel
	tx      *pgTx         // the open transaction
	failed  bool          // until its end
	wait    time.Duration // for a lock, in the open transaction
	started bool
	byName  map[string]pgStatement
}

func (m *pgModel) dial(p *simProcess, arrive func(*request) error) *wire {
	c := &wire{process: p, arrive: arrive}
	s := &pgSession{wire: c, model: m, wait: goods.LongLockWait, byName: map[string]pgStatement{}}
	c.serve, c.closed = s.serve, s.end
	return c
}

// end ends the session: what is not committed is undone.
func (s *pgSession) end() {
	if s.tx != nil {
		s.model.end(s.tx, false)
		s.tx = nil
	}
}

func (s *pgSession) send(messages ...pgproto3.BackendMessage) {
	for _, m := range messages {
		b, err := m.Encode(s.out.AvailableBuffer())
		if err != nil {
			panic(err)
		}
		s.out.Write(b)
	}
}

func (s *pgSession) ready() {
	status := byte('I')
	if s.tx != nil {
		status = 'T'
		if s.failed {
			status = 'E'
		}
	}
	s.send(&pgproto3.ReadyForQuery{TxStatus: status})
}

func (s *pgSession) fault(code, text string) {
	s.failed = s.tx != nil
	s.send(&pgproto3.ErrorResponse{Severity: "ERROR", SeverityUnlocalized: "ERROR", Code: code, Message: text})
}

// pgMessage is a message of the client.
type pgMessage struct {
	kind byte
	body []byte
}

func (s *pgSession) serve() error {
	if !s.started {
		s.started = true
		size := binary.BigEndian.Uint32(s.in.Bytes())
		if binary.BigEndian.Uint32(s.in.Bytes()[4:]) == 80877102 { // a cancel request: what it cancels is over
			return io.EOF
		}
		s.in.Next(int(size))
		s.send(&pgproto3.AuthenticationOk{}, &pgproto3.ParameterStatus{Name: "standard_conforming_strings", Value: "on"},
			&pgproto3.ParameterStatus{Name: "client_encoding", Value: "UTF8"},
			&pgproto3.BackendKeyData{ProcessID: 1, SecretKey: []byte{0, 0, 0, 1}})
		s.ready()
		return nil
	}
	var batch []pgMessage
	what, selects, key := "", false, s.in.String()
	for s.in.Len() > 0 {
		header := s.in.Next(5)
		m := pgMessage{kind: header[0]}
		m.body = bytes.Clone(s.in.Next(int(binary.BigEndian.Uint32(header[1:])) - 4))
		batch = append(batch, m)
		switch m.kind {
		case 'X':
			return io.EOF
		case 'Q':
			var q pgproto3.Query
			q.Decode(m.body)
			if what = q.String; what == "-- ping" {
				what = ""
			}
		case 'B':
			var b pgproto3.Bind
			if err := b.Decode(m.body); err != nil {
				return err
			}
			what, selects = s.byName[b.PreparedStatement].name, s.byName[b.PreparedStatement].selects
		}
		if m.kind == 'Q' || m.kind == 'S' {
			break
		}
	}
	run := func() bool { return s.run(batch) }
	if what == "" {
		run()
		return nil
	}
	return s.do(&request{what: what, key: key, run: run, end: s.end, lockWait: s.wait,
		lasting: what == "commit" || s.tx == nil && !selects,
		refuse: func(code string) {
			s.fault(code, "a fault of the simulation")
			s.ready()
		}})
}

// run carries out the messages of one round trip.
func (s *pgSession) run(batch []pgMessage) (wait bool) {
	var args pgArgs
	var statement pgStatement
	var results []int16
	skip := false // until Sync, after an error
	before := s.out.Len()
	for _, m := range batch {
		switch {
		case m.kind == 'S':
			s.ready()
		case skip:
		case m.kind == 'Q':
			var q pgproto3.Query
			q.Decode(m.body)
			s.simple(q.String)
		case m.kind == 'P':
			var p pgproto3.Parse
			p.Decode(m.body)
			s.byName[p.Name] = statementOf(p.Query)
			s.send(&pgproto3.ParseComplete{})
		case m.kind == 'D':
			var d pgproto3.Describe
			d.Decode(m.body)
			described := statement
			if d.ObjectType == 'S' {
				described = s.byName[d.Name]
				s.send(&pgproto3.ParameterDescription{ParameterOIDs: described.params})
			}
			s.describe(described, results)
		case m.kind == 'B':
			var b pgproto3.Bind
			b.Decode(m.body)
			statement, results = s.byName[b.PreparedStatement], b.ResultFormatCodes
			args = pgArgs{statement.params, b.ParameterFormatCodes, b.Parameters}
			s.send(&pgproto3.BindComplete{})
		case m.kind == 'E':
			fault, wait := s.execute(statement, args, results)
			if wait {
				s.out.Truncate(before)
				return true
			}
			skip = fault
		case m.kind == 'C':
			s.send(&pgproto3.CloseComplete{})
		default:
			panic(fmt.Sprintf("the model of Postgres does not know the message %q", m.kind))
		}
	}
	return false
}

func (s *pgSession) simple(sql string) {
	begin, lockTimeout, limited := strings.Cut(sql, "; set local lock_timeout = ")
	switch begin {
	case "-- ping":
		s.send(&pgproto3.EmptyQueryResponse{})
	case "begin isolation level read committed":
		s.tx, s.failed, s.wait = s.model.begin(), false, goods.LongLockWait
		s.send(&pgproto3.CommandComplete{CommandTag: []byte("BEGIN")})
		if limited {
			ms, err := strconv.Atoi(lockTimeout)
			if err != nil {
				panic(err)
			}
			s.wait = time.Duration(ms) * time.Millisecond
			s.send(&pgproto3.CommandComplete{CommandTag: []byte("SET")})
		}
	case "commit", "rollback":
		commit := sql == "commit" && !s.failed
		if s.tx != nil {
			s.model.end(s.tx, commit)
			s.tx, s.failed, s.wait = nil, false, goods.LongLockWait
		}
		tag := "ROLLBACK"
		if commit {
			tag = "COMMIT"
		}
		s.send(&pgproto3.CommandComplete{CommandTag: []byte(tag)})
	default:
		panic("the model of Postgres does not know this statement:\n" + sql)
	}
	s.ready()
}

func (s *pgSession) describe(statement pgStatement, formats []int16) {
	if statement.columns == nil {
		s.send(&pgproto3.NoData{})
		return
	}
	var description pgproto3.RowDescription
	for i, c := range statement.columns {
		description.Fields = append(description.Fields, pgproto3.FieldDescription{Name: []byte(c.name), DataTypeOID: c.oid,
			DataTypeSize: -1, TypeModifier: -1, Format: formatOf(formats, i)})
	}
	s.send(&description)
}

func formatOf(formats []int16, i int) int16 {
	switch len(formats) {
	case 0:
		return 0
	case 1:
		return formats[0]
	}
	return formats[i]
}

func (s *pgSession) execute(statement pgStatement, args pgArgs, formats []int16) (fault, wait bool) {
	if s.failed {
		s.fault("25P02", "current transaction is aborted")
		return true, false
	}
	tx := s.tx
	if tx == nil {
		tx = s.model.begin()
	}
	defer func() {
		if v := recover(); v != nil {
			if _, ok := v.(mustWait); !ok {
				panic(v)
			}
			wait = true
		}
		if s.tx == nil {
			s.model.end(tx, !wait && !fault)
		}
	}()
	rows, n, code := statement.run(s.model, tx, args)
	if code != "" {
		s.fault(string(code), "a constraint of the model")
		return true, false
	}
	for _, row := range rows {
		var data pgproto3.DataRow
		for i, v := range row {
			var value []byte
			if v != nil {
				var err error
				if value, err = pgTypes.Encode(statement.columns[i].oid, formatOf(formats, i), v, []byte{}); err != nil {
					panic(fmt.Sprintf("column %s: %v", statement.columns[i].name, err))
				}
			}
			data.Values = append(data.Values, value)
		}
		s.send(&data)
	}
	s.send(&pgproto3.CommandComplete{CommandTag: []byte(statement.tag + " " + strconv.Itoa(n))})
	return false, false
}

var pgConfig = sync.OnceValue(func() *pgxpool.Config {
	cfg, err := pgxpool.ParseConfig("postgres://simulation@simulation/simulation?sslmode=disable&pool_max_conns=32")
	if err != nil {
		panic(err)
	}
	return cfg
})

// newPgPool returns a pool whose connections come from dial.
func newPgPool(dial func() (net.Conn, error)) *pgxpool.Pool {
	cfg := pgConfig().Copy()
	cfg.ConnConfig.DialFunc = func(context.Context, string, string) (net.Conn, error) { return dial() }
	cfg.ConnConfig.LookupFunc = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil }
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		panic(err)
	}
	return pool
}
