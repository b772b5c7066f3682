package strategies

import (
	"context"

	"miaosha/seckill/lab"
)

// luaChannel is lua without waiting for Postgres. A buyer who has a unit in Redis is told yes at once.
// The order goes into a queue in the process, and a worker writes it later.
//
// It is fast, it does not oversell, and it is exact while no process dies. Wrong when a process dies:
// its queue is lost. Those buyers were told yes and Redis has taken their units, but no record says
// that their orders are due. Run it with the fault kill. A deployment is a kill, too, if it does not
// wait for the queue.
//
// Two things solve it. The script that takes the unit also writes the due order to a journal, from
// which another process can take over. And a buyer is told only "you are in the queue" until Postgres
// has committed. The shop does both. A message broker is such a journal, too; but then the unit and
// the message are two steps again.
//
// In the field: "asynchronous order processing" with a queue in memory, a channel in Go or a
// BlockingQueue in Java.
type luaChannel struct {
	redisStock
	queue chan int64
}

func newLuaChannel(n *lab.Node) *luaChannel {
	return &luaChannel{redisStock{n}, make(chan int64, lab.MaxStock)}
}

func (s *luaChannel) Buy(ctx context.Context, user int64) (bool, error) {
	s.LookUpPrice(ctx, user)
	got, err := take.Run(ctx, s.Redis, []string{s.Key("stock"), s.Key("buyers")}, user).Int()
	if err != nil || got != 1 {
		return false, err
	}
	//lab:here
	s.queue <- user  // it has room for every unit
	return true, nil // a yes that is not written anywhere
	//lab:end
}

// Run writes the queued orders. When the process stops properly, it writes the rest of the queue.
func (s *luaChannel) Run(ctx context.Context) error {
	for {
		select {
		case user := <-s.queue:
			if err := s.write(ctx, user); err != nil {
				return err
			}
		case <-ctx.Done():
			for len(s.queue) > 0 {
				if err := s.write(ctx, <-s.queue); err != nil {
					return err
				}
			}
			return nil
		}
	}
}

func (s *luaChannel) write(ctx context.Context, user int64) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lab.CleanupTimeout)
	defer cancel()
	_, err := s.DB.Exec(ctx, `insert into orders (user_id) values ($1)`, user)
	return err
}
