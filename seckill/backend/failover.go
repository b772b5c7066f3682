package backend

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgxpool"
)

// forPrimary makes a connection one to a server that takes writes, whatever target_session_attrs
// says: of several hosts in the URL the first such one. If the server turns read-only later, the
// first refused write closes the connection, so the next one finds the new primary.
func forPrimary(cfg *pgx.ConnConfig) {
	// pgx dials once more to cancel what a broken connection was asked, and keeps its place in the pool meanwhile.
	cfg.DialFunc = (&net.Dialer{Timeout: time.Second, KeepAlive: 30 * time.Second}).DialContext
	cfg.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	keep := cfg.OnPgError
	cfg.OnPgError = func(conn *pgconn.PgConn, err *pgconn.PgError) bool {
		return err.Code != "25006" && keep(conn, err) // read_only_sql_transaction
	}
	cfg.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend {
		return pgproto3.NewFrontend(&messages{in: bufio.NewReaderSize(r, 8<<10)}, w)
	}
}

// stillWritable reports whether the server of an idle connection takes writes, as far as it has
// said. A pool that only reads has no write that would be refused: it would read old rows for ever.
func stillWritable(_ context.Context, conn *pgx.Conn) (bool, error) {
	return conn.PgConn().ParameterStatus("default_transaction_read_only") != "on", nil
}

func poolForPrimary(cfg *pgxpool.Config) {
	forPrimary(cfg.ConnConfig)
	cfg.PrepareConn = stillWritable
}

// servers returns the addresses of a URL, in the order in which they are dialed.
func servers(cfg *pgx.ConnConfig) string {
	all := []string{net.JoinHostPort(cfg.Host, strconv.Itoa(int(cfg.Port)))}
	for _, f := range cfg.Fallbacks {
		all = append(all, net.JoinHostPort(f.Host, strconv.Itoa(int(f.Port))))
	}
	return strings.Join(slices.Compact(all), ", ") // a host is there twice if it may do without TLS
}

// notReplicatedError says that a transaction is committed on this server and may be missing on its
// synchronous standby: something has cancelled the wait for the standby, as pg_cancel_backend does,
// and pgx when the time of a call is over. To Postgres that is a success with a warning. To the shop
// it is a commit without a reply: if the server dies now and the standby takes over, the transaction
// never happened, so no user may be told of it. Settling again finds out, because it locks the
// sale's row: that writes to the log of Postgres, so its own commit waits until the standby has the
// log up to there.
//
// It is a net.Error because pgx does not keep an error of its first read unless it is a timeout.
type notReplicatedError struct{}

func (notReplicatedError) Error() string {
	return "Postgres has committed, but its standby may not have it: the wait for the standby was cancelled"
}
func (notReplicatedError) Timeout() bool   { return true }
func (notReplicatedError) Temporary() bool { return false }

// notReplicated is the routine that sends that warning, as a field of it. The warning has no
// SQLSTATE of its own, and its text may be translated.
var notReplicated = []byte("\x00RSyncRepWaitForLSN\x00")

// messages reads what a server sends. A Read ends with a message at the latest, so the success that
// follows the warning is never read: the statement returns a notReplicatedError, and the connection is
// closed.
type messages struct {
	in   *bufio.Reader
	left int64 // bytes of the message under way
}

func (m *messages) Read(p []byte) (int, error) {
	if m.left == 0 {
		head, err := m.in.Peek(5) // type and length
		if err != nil {
			return 0, err
		}
		length := 1 + int64(binary.BigEndian.Uint32(head[1:]))
		if head[0] == 'N' {
			notice, err := m.in.Peek(int(min(length, int64(m.in.Size()))))
			if err != nil {
				return 0, err
			}
			if bytes.Contains(notice, notReplicated) {
				return 0, notReplicatedError{}
			}
		}
		m.left = length
	}
	n, err := m.in.Read(p[:min(int64(len(p)), m.left)])
	m.left -= int64(n)
	return n, err
}
