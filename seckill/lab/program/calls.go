package program

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/redis/go-redis/v9"
)

var ErrNoBuy = Error{"the program has no function buy"}

var (
	ErrNested    = Error{"a transaction inside of a transaction"}
	ErrLostReply = errors.New("the connection was lost: nobody knows whether the statement was executed")
	ErrRedisAway = errors.New("no answer: Redis is away")
)

func IsolationLevel(name string) (pgx.TxIsoLevel, error) {
	switch level := pgx.TxIsoLevel(strings.ToLower(name)); level {
	case "", pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable:
		return level, nil
	}
	return "", Error{fmt.Sprintf("%q is no isolation level: read committed, repeatable read or serializable", name)}
}

// RedisReply returns nil for a missing value, which is no error.
func RedisReply(c *redis.Cmd) (any, error) {
	reply, err := c.Result()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	return reply, err
}

// Lock is a lock of one process that can be waited for with a context.
type Lock chan struct{}

func (l Lock) Take(ctx context.Context) (unlock func(), err error) {
	select {
	case l <- struct{}{}:
		return sync.OnceFunc(func() { <-l }), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// maxResult is the largest result of a statement, in bytes.
const maxResult = 1 << 20

var errTooLarge = Error{fmt.Sprintf("the result of a statement is larger than %d KB", maxResult>>10)}

// ReadTable reads a result to its end.
func ReadTable(rows pgx.Rows) (*Table, error) {
	defer rows.Close()
	t := &Table{}
	size := 0
	for rows.Next() {
		for _, raw := range rows.RawValues() {
			size += len(raw) + 8
		}
		if size > maxResult {
			return nil, errTooLarge
		}
		values, err := rows.Values()
		if err != nil {
			return nil, err
		}
		for i, value := range values {
			values[i] = plainValue(value)
		}
		t.rows = append(t.rows, values)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	for _, f := range rows.FieldDescriptions() {
		t.names = append(t.names, f.Name)
	}
	tag := rows.CommandTag()
	t.affected = tag.RowsAffected()
	t.Written = t.affected > 0 && !tag.Select()
	return t, nil
}

// plainValue returns a value of Postgres for which Lua has no type as a number or a text.
func plainValue(value any) any {
	switch v := value.(type) {
	case pgtype.Numeric:
		number, _ := v.Float64Value()
		return number.Float64
	case time.Time:
		return v.Format("2006-01-02 15:04:05.999999Z07:00")
	case [16]byte:
		return pgtype.UUID{Bytes: v, Valid: true}.String()
	case []byte:
		return string(v)
	case driver.Valuer:
		if text, err := v.Value(); err == nil {
			return text
		}
	}
	return value
}
