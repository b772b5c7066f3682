package lineage

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"miaosha/seckill/gate"
)

//go:embed mark.lua
var markSource string
var markScript = redis.NewScript(markSource)

const (
	aloneFor   = 10 * time.Second
	keysOnce   = 500  // in one call, during which Redis serves no other
	ordersOnce = 1000 // looked up in one query
	forgetFor  = 3600 * 1000
)

// Redis is one of the shop's.
type Redis struct {
	Setting string // such as --redis-url (REDIS_URL)
	Client  redis.UniversalClient
}

// marks are what a Redis has seen. Shop is "" if it has none.
type marks struct {
	Shop, Incarnation, Server string
	seen
}

// fault wraps an error of Redis. One that is no reply means that it was not reached.
func (r Redis) fault(doing string, err error) error {
	var reply redis.Error
	if !errors.As(err, &reply) {
		doing = "can't reach Redis: " + doing
	}
	return fmt.Errorf("%s: %s: %w", r.Setting, doing, err)
}

func (r Redis) marks(ctx context.Context) (m marks, err error) {
	fields := []string{"shop", "incarnation", "server"}
	numbers := m.seen.numbers()
	for _, n := range numbers {
		fields = append(fields, n.name)
	}
	values, err := r.Client.HMGet(ctx, marksKey, fields...).Result()
	if err != nil {
		return marks{}, r.fault("read the marks", err)
	}
	for i, to := range []*string{&m.Shop, &m.Incarnation, &m.Server} {
		*to, _ = values[i].(string)
	}
	for i, n := range numbers {
		text, _ := values[3+i].(string)
		*n.n, _ = strconv.ParseInt(text, 10, 64) // one that is missing is 0
	}
	return m, nil
}

func (r Redis) mark(ctx context.Context, process string, at row, former string, s seen) (other string, err error) {
	args := []any{process, at.Shop, at.Incarnation, at.Server(), former}
	for _, n := range s.numbers() {
		args = append(args, n.name, *n.n)
	}
	if other, err = markScript.Run(ctx, r.Client, []string{marksKey, processesKey}, args...).Text(); err != nil {
		return "", r.fault("mark what the shop has seen", err)
	}
	return other, nil
}

// or it runs out
func (r Redis) leave(ctx context.Context, process string) { r.Client.ZRem(ctx, processesKey, process) }

// otherProcess returns the name of a process that lives and uses this Redis with another incarnation or database than
// self.
func (r Redis) otherProcess(ctx context.Context, self string) (string, error) {
	now, err := r.Client.Time(ctx).Result()
	if err != nil {
		return "", r.fault("read the time", err)
	}
	ours := strings.Join(strings.SplitN(self, " ", 3)[:2], " ") + " "
	processes, err := r.Client.ZRangeByScoreWithScores(ctx, processesKey,
		&redis.ZRangeBy{Min: "-inf", Max: "+inf"}).Result()
	if err != nil {
		return "", r.fault("read the processes", err)
	}
	for _, p := range processes {
		member, _ := p.Member.(string)
		switch age := now.UnixMilli() - int64(p.Score); {
		case age > forgetFor:
			r.leave(ctx, member)
		case age < aliveFor.Milliseconds() && !strings.HasPrefix(member, ours):
			return member[strings.LastIndex(member, " ")+1:], nil
		}
	}
	return "", nil
}

func (r Redis) ofAnotherShop(ours, theirs string) error {
	return fmt.Errorf(
		"%s: this Redis is in use by another shop (%s; the database is of shop %s): give each shop another Redis, or another database number of it. If the other shop is gone, or this database was made new on purpose, delete its keys: redis-cli -u URL --scan --pattern '%s' | xargs redis-cli -u URL unlink",
		r.Setting, short(theirs), short(ours), pattern)
}

// ofAnother is the error of marks that another shop or incarnation has written.
func (r Redis) ofAnother(at row, other string) error {
	shop, incarnation, _ := strings.Cut(other, " ")
	if shop != at.Shop {
		return r.ofAnotherShop(at.Shop, shop)
	}
	return fmt.Errorf(
		"%s is in use by another incarnation of the shop (%s, this process is of %s): a restore or a failover has come between",
		r.Setting, short(incarnation), short(at.Incarnation))
}

// alone reports whether the process with this name, which no other has, is the one that deletes, until notAlone.
func (r Redis) alone(ctx context.Context, name string) (bool, error) {
	alone, err := r.Client.SetNX(ctx, aloneKey, name, aloneFor).Result()
	if err != nil {
		return false, r.fault("claim the deletion", err)
	}
	return alone, nil
}

// stillAlone goes on with the claim of alone. It returns an error if another process has it by now.
func (r Redis) stillAlone(ctx context.Context, name string) error {
	owner, err := r.Client.Get(ctx, aloneKey).Result()
	if err == nil && owner == name {
		err = r.Client.PExpire(ctx, aloneKey, aloneFor).Err()
	} else if err == nil || errors.Is(err, redis.Nil) {
		return fmt.Errorf("%s: this process stood still while it deleted, and another one may delete: start again",
			r.Setting)
	}
	if err != nil {
		return r.fault("claim the deletion", err)
	}
	return nil
}

func (r Redis) notAlone(ctx context.Context, name string) {
	if owner, err := r.Client.Get(ctx, aloneKey).Result(); err == nil && owner == name {
		r.Client.Del(ctx, aloneKey) // or it expires
	}
}

// hasKeys reports whether a Redis has keys of a shop, as far as it finds out soon. One that may not be asked is taken
// for empty.
func (r Redis) hasKeys(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, rowLimit)
	defer cancel()
	found := errors.New("found")
	err := r.scan(ctx, pattern, func(_ context.Context, _ *redis.Client, keys []string) error {
		if len(keys) > 0 {
			return found
		}
		return nil
	})
	if ctx.Err() != nil {
		return false, nil
	}
	if err != nil && !errors.Is(err, found) && !isNoPerm(err) {
		return false, err
	}
	return errors.Is(err, found), nil
}

// deleteAll deletes every key of a shop but those of this package. It returns how many there were, and how many entries
// of journals.
func (r Redis) deleteAll(ctx context.Context, me string) (keys, entries int64, err error) {
	var n, waiting atomic.Int64 // the masters of a Cluster are asked at the same time
	err = r.scan(ctx, pattern, func(ctx context.Context, node *redis.Client, found []string) error {
		if err := r.stillAlone(ctx, me); err != nil || len(found) == 0 {
			return err
		}
		pipe := node.Pipeline()
		var lengths []*redis.IntCmd
		for _, key := range found {
			if strings.HasSuffix(key, ":journal2") || strings.HasSuffix(key, ":journal") {
				lengths = append(lengths, pipe.XLen(ctx, key))
			}
			pipe.Unlink(ctx, key)
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return r.fault("delete the keys of another incarnation", err)
		}
		n.Add(int64(len(found)))
		for _, l := range lengths {
			waiting.Add(l.Val())
		}
		return nil
	})
	if isNoPerm(err) {
		err = fmt.Errorf(
			"%s: its user may not delete what is there of the former incarnation (%w): give it +scan and +unlink (deploy/README.md), or delete it: redis-cli -u URL --scan --pattern '%s' | xargs redis-cli -u URL unlink",
			r.Setting, err, pattern)
	}
	return n.Load(), waiting.Load(), err
}

// scan calls do with the keys that match a pattern, but those of no incarnation, a few hundred at a time, and also with
// none.
func (r Redis) scan(ctx context.Context, match string, do func(context.Context, *redis.Client, []string) error) error {
	one := func(ctx context.Context, node *redis.Client) error {
		for cursor, more := uint64(0), true; more; more = cursor != 0 {
			keys, next, err := node.Scan(ctx, cursor, match, keysOnce).Result()
			if err != nil {
				return r.fault("look for the keys of the shop", err)
			}
			cursor = next
			found := keys[:0]
			for _, key := range keys {
				if !strings.HasPrefix(key, ownPrefix) {
					found = append(found, key)
				}
			}
			if err := do(ctx, node, found); err != nil {
				return err
			}
		}
		return nil
	}
	switch c := r.Client.(type) {
	case *redis.ClusterClient:
		return c.ForEachMaster(ctx, one)
	case *redis.Client:
		return one(ctx, c)
	}
	return fmt.Errorf("%s: a client of an unknown kind", r.Setting)
}

func isNoPerm(err error) bool { return err != nil && strings.Contains(err.Error(), "NOPERM") }

// ordersMissing returns how many orders the gates know that Postgres does not have. Gates are looked for by the sales
// that Postgres has: a sale that is missing shows in the beat.
func (r Redis) ordersMissing(ctx context.Context, db querier) (lost int, err error) {
	sales, err := recentSales(ctx, db)
	if err != nil {
		return 0, err
	}
	for _, sale := range sales {
		for cursor, more := uint64(0), true; more; more = cursor != 0 {
			page, next, err := r.Client.HScan(ctx, gate.TicketsKey(sale), cursor, "", ordersOnce).Result()
			if err != nil {
				return 0, r.fault(fmt.Sprintf("read the orders of sale %d", sale), err)
			}
			cursor = next
			n, err := missing(ctx, db, gate.OrdersIn(page))
			if err != nil {
				return 0, err
			}
			lost += n
		}
	}
	return lost, nil
}
