package lab

import "context"

// luaChannel is lua that does not wait for Postgres: who has a unit in Redis is told so at once, and his order goes into a
// queue in the process, which a worker writes down behind his back.
//
// It is fast, it does not oversell, and as long as nothing happens it is exact. Wrong when the process dies: what is in the
// queue is gone with it. Those buyers were told yes, Redis has taken their units, and nobody anywhere knows that their orders
// are owed. Run it with the fault kill. A deployment is a kill, if it does not wait for the queue.
//
// Two things put it right. The script that takes the unit writes the order that is owed into a journal in the same step, from
// which another process can take it over. And nobody is told more than "you are in the queue" before Postgres has committed.
// That is the shop. A message broker is such a journal too; but then the unit and the message are two steps again.
//
// In the field: "asynchronous order processing" with an in-memory queue, in Go as a channel, in Java as a BlockingQueue.
type luaChannel struct {
	redisStock
	queue chan int64
}

func newLuaChannel(n *node) *luaChannel {
	return &luaChannel{redisStock{n}, make(chan int64, MaxStock)}
}

func (s *luaChannel) Buy(ctx context.Context, user int64) (bool, error) {
	s.think(ctx, user)
	got, err := take.Run(ctx, s.rdb, []string{s.key("stock"), s.key("buyers")}, user).Int()
	if err != nil || got != 1 {
		return false, err
	}
	//lab:here
	s.queue <- user  // there is room for every unit
	return true, nil // told, and nowhere written
	//lab:end
}

// Run writes down what is in the queue, and at the end of a process that is stopped properly what is still in it.
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
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyLimit)
	defer cancel()
	_, err := s.db.Exec(ctx, `insert into orders (user_id) values ($1)`, user)
	return err
}
