package schedules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	glua "github.com/yuin/gopher-lua"

	"miaosha/seckill/lab"
	"miaosha/seckill/lab/program"
)

// actor is a click in a trial. It asks for each step and waits until its turn.
type actor struct {
	*trial
	id       int
	user     int64
	node     int
	conn     *pgx.Conn
	inTx     bool
	ask      chan *request
	ended    chan struct{}
	waiting  *request // asked and not begun
	flying   *request // begun, and waits for a lock of another
	done     bool
	told     string // yes, no or ""
	promised bool
	returned bool            // the buyer has cancelled
	rests    bool            // the last answer was no
	refused  int             // answers no while no unit could come from another click
	stale    int             // steps since one that was new
	seen     map[string]bool // kinds of steps with their texts and results
	often    map[string]int  // steps of a kind, line and result
	put      []func(context.Context) error
}

var errTrialOver = errors.New("the schedule is over")

// click presses buy until there is an answer, and does what later has put off. Under Cancel the first buyer then
// cancels, and another one who was refused presses again.
func (a *actor) click() {
	defer close(a.ended)
	defer a.leave()
	var err error
	for tries := 0; tries < clickTries; tries++ {
		p := a.processOf(a)
		a.put = nil
		var yes glua.LValue
		has := true
		if err = a.start(p); err == nil {
			yes, has, err = p.Call(p.ctx, a, "buy", glua.LNumber(a.numbers[a.user-1]))
			a.rollBack()
		}
		if !has {
			a.failure, a.problem = program.ErrNoBuy.Error(), lab.BadRuntime
			return
		}
		if errors.Is(err, errTrialOver) || a.ctx.Err() != nil {
			return
		}
		if err == nil && p.ctx.Err() == nil {
			answer := "no"
			if yes == glua.LTrue {
				answer = "yes"
			}
			if err = a.step(&request{kind: "answer", text: answer, do: func(context.Context) (string, error) {
				a.told = answer
				return "", nil
			}}); err != nil {
				if a.told != "" && !a.cancels() || errors.Is(err, errTrialOver) {
					return
				}
				continue
			}
			a.doLater(p)
			switch {
			case answer == "yes" && a.id == 0 && a.cancels():
				if err = a.cancel(p); err == nil {
					return
				}
			case answer == "no" && a.cancels() && a.refused < clickTries:
				tries = -1 // the next click
			default:
				return
			}
		}
	}
	if err != nil && len(a.faults) == 0 {
		a.failure, a.problem = lab.OneLine(err.Error()), lab.BadRuntime
	}
}

// cancels reports whether the first buyer of the scene cancels.
func (a *actor) cancels() bool { return a.plan.Has(lab.Cancel) && a.clicks == lab.TwoBuyers }

// answered notes an answer. No unit can come from another click that is done, or was refused too.
func (a *actor) answered(text string) {
	a.rests = text == "no"
	if a.rests && !slices.ContainsFunc(a.actors, func(other *actor) bool {
		return other != a && !other.done && !other.rests
	}) {
		a.refused++
	}
}

// cancel calls cancel for the buyer.
func (a *actor) cancel(p *process) error {
	if err := a.step(&request{kind: "code", text: cancelText,
		do: func(context.Context) (string, error) { return "", nil }}); err != nil {
		return err
	}
	a.put = nil
	_, _, err := p.Call(p.ctx, a, "cancel", glua.LNumber(a.numbers[a.user-1]))
	a.rollBack()
	if err == nil {
		err = p.ctx.Err()
	}
	if err == nil {
		a.returned = true
		a.doLater(p)
	}
	return err
}

// start calls start in a process that has come in place of a killed one. It is a part of the click, so that it waits
// for the locks of others as any step does. Other clicks of the process wait for it.
func (a *actor) start(p *process) error {
	if p.started.Load() {
		return nil
	}
	var unlock func()
	err := a.step(&request{kind: "code", text: startText, do: func(context.Context) (_ string, err error) {
		unlock, err = p.starting.Take(p.ctx)
		return "", err
	}})
	if err != nil {
		return err
	}
	defer unlock()
	if p.started.Load() { // by another click
		return nil
	}
	_, _, err = p.Call(p.ctx, a, "start")
	a.rollBack()
	p.started.Store(err == nil)
	return err
}

// leave starts the process if it has come after the last click of the killed one: a buyer had the answer.
func (a *actor) leave() {
	for range clickTries {
		p := a.processOf(a)
		a.put = nil
		if a.ctx.Err() != nil {
			return
		}
		if a.start(p) == nil {
			a.doLater(p)
			return
		}
	}
}

// doLater does what later has put off, and what that puts off in turn, as long as the process lives.
func (a *actor) doLater(p *process) {
	for len(a.put) > 0 && p.ctx.Err() == nil {
		do := a.put[0]
		a.put = a.put[1:]
		_ = do(p.ctx)
		a.rollBack()
	}
}

// step asks for a step and waits until it is done. Outside of a schedule it is done at once.
func (a *actor) step(r *request) error {
	if a.id < 0 {
		_, err := r.do(a.ctx)
		return err
	}
	r.reply = make(chan error, 1)
	select {
	case a.ask <- r:
	case <-a.ctx.Done():
		return errTrialOver
	}
	return <-r.reply
}

// spins reports whether an actor repeats what it has done: it waits for another one.
func (a *actor) spins() bool { return a.stale >= 6 }

// hangUp ends an actor's connection, as Postgres sees it: its transaction is rolled back, and its locks are free.
func (a *actor) hangUp() {
	if a.flying == nil && !a.conn.IsClosed() {
		if a.inTx {
			_, _ = a.conn.Exec(a.ctx, `rollback`)
		}
		a.inTx = false
		if _, err := a.conn.PgConn().Exec(a.ctx, `discard all`).ReadAll(); err == nil {
			return
		}
	}
	pid := a.conn.PgConn().PID()
	_, _ = a.see.Exec(a.ctx, `select pg_terminate_backend($1, 1000)`, int32(pid))
	_ = a.conn.PgConn().Conn().Close()
	if c, err := a.connect(a.ctx); err == nil {
		a.conn, a.conns[a.id] = c, c
	}
	a.inTx = false
}

// rollBack ends a transaction that a click has left open.
func (a *actor) rollBack() {
	if a.inTx && !a.conn.IsClosed() {
		_, _ = a.conn.Exec(a.ctx, `rollback`)
	}
	a.inTx = false
}

// The calls of a click in a trial.

func (a *actor) Key(name string) string { return a.ns.Key(name) }

func (a *actor) Query(_ context.Context, line int, text string, args []any) (t *program.Table, err error) {
	first := strings.ToLower(strings.TrimSpace(text))
	err = a.step(&request{kind: "sql", text: lab.WithArgs(text, args), line: line, commits: !a.inTx &&
		!strings.HasPrefix(first, "select"),
		do: func(ctx context.Context) (string, error) {
			rows, err := a.conn.Query(ctx, text, args...)
			if err != nil {
				return "", err
			}
			if t, err = program.ReadTable(rows); err != nil {
				return "", err
			}
			return t.String(), nil
		}})
	return t, err
}

func (a *actor) Begin(_ context.Context, line int, isolation string) error {
	if a.inTx {
		return program.ErrNested
	}
	level, err := program.IsolationLevel(isolation)
	if err != nil {
		return err
	}
	text := "begin"
	if level != "" {
		text += " isolation level " + string(level)
	}
	return a.step(&request{kind: "sql", text: text, line: line, do: func(ctx context.Context) (string, error) {
		_, err := a.conn.Exec(ctx, text)
		a.inTx = err == nil
		return "", err
	}})
}

func (a *actor) End(_ context.Context, line int, commit bool) error {
	if !a.inTx {
		return nil
	}
	text := "rollback"
	if commit {
		text = "commit"
	}
	return a.step(&request{kind: "sql", text: text, line: line, commits: commit,
		do: func(ctx context.Context) (string, error) {
			tag, err := a.conn.Exec(ctx, text)
			a.inTx = false
			if err == nil && commit && tag.String() == "ROLLBACK" {
				err = pgx.ErrTxCommitRollback
			}
			return "", err
		}})
}

func (a *actor) Command(_ context.Context, line int, args []any) (reply any, err error) {
	err = a.step(&request{kind: "redis", text: redisText(args), line: line, commits: true,
		do: func(ctx context.Context) (string, error) {
			var err error
			if reply, err = program.RedisReply(a.rdb.Do(ctx, args...)); err != nil {
				return "", err
			}
			if reply == nil {
				return "nil", nil
			}
			return lab.OneLine(fmt.Sprint(reply)), nil
		}})
	return reply, err
}

// redisText returns a call as a terminal shows it. Of a script it shows the first line.
func redisText(args []any) string {
	words := make([]string, len(args))
	for i, arg := range args {
		words[i] = fmt.Sprint(arg)
	}
	return strings.ReplaceAll(strings.Join(words, " "), program.ClosedScript, "")
}

func (a *actor) Think(_ context.Context, line int) error {
	return a.step(&request{kind: "code", text: thinkText, line: line,
		do: func(context.Context) (string, error) { return "", nil }})
}

func (a *actor) Promise(_ context.Context, line int) error {
	if a.id < 0 {
		return nil
	}
	return a.step(&request{kind: "answer", text: "yes", line: line, do: func(context.Context) (string, error) {
		a.promised = true
		return "", nil
	}})
}

func (a *actor) Lock(_ context.Context, line int, name string) (unlock func(), err error) {
	p := a.processOf(a)
	err = a.step(&request{kind: "code", text: "lock " + name, line: line,
		do: func(ctx context.Context) (string, error) {
			var err error
			unlock, err = p.LockOf(name).Take(p.ctx)
			return "", err
		}})
	return unlock, err
}

func (a *actor) Later(do func(context.Context) error) { a.put = append(a.put, do) }
