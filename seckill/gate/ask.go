package gate

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	askLife       = 5 * time.Second // of a question and its answers
	secretsLife   = time.Minute     // how long the fingerprints of processes that have ended are kept at most
	processesLife = 24 * time.Hour  // how long a process that has ended is remembered
	asksOnce      = 100             // questions in one round of a process
	processesMost = 1000            // processes that one question is about
)

// Process is a process of the shop, as it shows itself to the others.
type Process struct {
	Name     string
	LastSeen time.Time // by the clock of Redis
}

// Attend shows that a process lives at the time now by the clock of Redis, and returns the questions of the last
// seconds. It is one round trip.
func (g *Gate) Attend(ctx context.Context, process string, now time.Time) (questions []string, err error) {
	since := strconv.FormatInt(now.Add(-askLife).UnixMilli(), 10)
	questions, err = guarded(ctx, g, callLimit, func(ctx context.Context) ([]string, error) {
		pipe := g.rdb.Pipeline()
		pipe.ZAdd(ctx, processesKey, redis.Z{Score: float64(now.UnixMilli()), Member: process})
		asked := pipe.ZRangeByScore(ctx, asksKey, &redis.ZRangeBy{Min: since, Max: "+inf", Count: asksOnce})
		_, err := pipe.Exec(ctx)
		return asked.Val(), err
	})
	if err != nil {
		return nil, fmt.Errorf("look for questions: %w", err)
	}
	return questions, nil
}

// ShowSecrets shows the fingerprints of the secrets of a process that lives at the time now by the clock of Redis, and
// returns those of all processes that were seen at since or later, by their names. It is one transaction: of two
// processes that begin together the second one sees the first.
func (g *Gate) ShowSecrets(
	ctx context.Context, process string, fingerprints []string, since, now time.Time,
) (shown map[string][]string, err error) {
	ms := func(t time.Time) string { return strconv.FormatInt(t.UnixMilli(), 10) }
	members, err := guarded(ctx, g, callLimit, func(ctx context.Context) ([]string, error) {
		var living *redis.StringSliceCmd
		_, err := g.rdb.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.ZAdd(ctx, secretsKey, redis.Z{Score: float64(now.UnixMilli()),
				Member: secretsMember(process, fingerprints)})
			living = pipe.ZRangeByScore(ctx, secretsKey,
				&redis.ZRangeBy{Min: ms(since), Max: "+inf", Count: processesMost})
			pipe.PExpire(ctx, secretsKey, secretsLife)
			return nil
		})
		return living.Val(), err
	})
	if err != nil {
		return nil, fmt.Errorf("show the fingerprints of the secrets: %w", err)
	}
	shown = make(map[string][]string, len(members))
	for _, m := range members {
		words := strings.Fields(m)
		shown[words[0]] = words[1:]
	}
	return shown, nil
}

// HideSecrets takes back what ShowSecrets has shown of a process.
func (g *Gate) HideSecrets(ctx context.Context, process string, fingerprints []string) error {
	return g.call(ctx, callLimit, func(ctx context.Context) error {
		return g.rdb.ZRem(ctx, secretsKey, secretsMember(process, fingerprints)).Err()
	})
}

func secretsMember(process string, fingerprints []string) string {
	return process + " " + strings.Join(fingerprints, " ")
}

// Now returns the time by the clock of Redis.
func (g *Gate) Now(ctx context.Context) (time.Time, error) {
	return guarded(ctx, g, callLimit, func(ctx context.Context) (time.Time, error) { return g.rdb.Time(ctx).Result() })
}

// ForgetProcesses forgets the processes that were last seen a day before now.
func (g *Gate) ForgetProcesses(ctx context.Context, now time.Time) error {
	return g.call(ctx, callLimit, func(ctx context.Context) error {
		until := strconv.FormatInt(now.Add(-processesLife).UnixMilli(), 10)
		old, err := g.rdb.ZRangeByScore(ctx, processesKey,
			&redis.ZRangeBy{Min: "-inf", Max: until, Count: processesMost}).Result()
		if err != nil || len(old) == 0 {
			return err
		}
		return g.rdb.ZRem(ctx, processesKey, old).Err()
	})
}

// Processes returns the processes of the shop that were seen at since or later, and the time, both by the clock of
// Redis.
func (g *Gate) Processes(ctx context.Context, since time.Time) (processes []Process, now time.Time, err error) {
	err = g.call(ctx, callLimit, func(ctx context.Context) error {
		pipe := g.rdb.Pipeline()
		clock := pipe.Time(ctx)
		seen := pipe.ZRangeByScoreWithScores(ctx, processesKey,
			&redis.ZRangeBy{Min: strconv.FormatInt(since.UnixMilli(), 10), Max: "+inf", Count: processesMost})
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
		now = clock.Val()
		for _, z := range seen.Val() {
			name, _ := z.Member.(string)
			processes = append(processes, Process{name, time.UnixMilli(int64(z.Score))})
		}
		return nil
	})
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("list the processes: %w", err)
	}
	return processes, now, nil
}

// Ask asks every process a question at the time now by the clock of Redis. The question has an id of its own, so no two
// are the same.
func (g *Gate) Ask(ctx context.Context, question string, now time.Time) error {
	return g.call(ctx, callLimit, func(ctx context.Context) error {
		pipe := g.rdb.Pipeline()
		pipe.ZAdd(ctx, asksKey, redis.Z{Score: float64(now.UnixMilli()), Member: question})
		pipe.PExpire(ctx, asksKey, askLife)
		_, err := pipe.Exec(ctx)
		return err
	})
}

// Withdraw removes a question that no longer waits for an answer, and its answers.
func (g *Gate) Withdraw(ctx context.Context, id, question string) error {
	return g.call(ctx, callLimit, func(ctx context.Context) error {
		pipe := g.rdb.Pipeline()
		pipe.ZRem(ctx, asksKey, question)
		pipe.Del(ctx, answersKey(id))
		_, err := pipe.Exec(ctx)
		return err
	})
}

// Answer answers the question with an id.
func (g *Gate) Answer(ctx context.Context, id, process, answer string) error {
	return g.call(ctx, callLimit, func(ctx context.Context) error {
		pipe := g.rdb.Pipeline()
		pipe.HSet(ctx, answersKey(id), process, answer)
		pipe.PExpire(ctx, answersKey(id), askLife)
		_, err := pipe.Exec(ctx)
		return err
	})
}

// Answers returns the answer of each process to the question with an id, "" for one that has not answered yet.
func (g *Gate) Answers(ctx context.Context, id string, processes []string) (answers []string, err error) {
	values, err := guarded(ctx, g, callLimit, func(ctx context.Context) ([]any, error) {
		return g.rdb.HMGet(ctx, answersKey(id), processes...).Result()
	})
	if err != nil {
		return nil, fmt.Errorf("read the answers: %w", err)
	}
	for _, v := range values {
		text, _ := v.(string)
		answers = append(answers, text)
	}
	return answers, nil
}
