package boundary

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"miaosha/seckill/lab"
	"miaosha/seckill/lab/program"
	"miaosha/seckill/lab/throwaway"
)

// place is a Postgres that is made for one program. The program's role may connect to its one database and make
// temporary tables; the judge makes a schema for each run.
type place struct {
	server *throwaway.Server
	url    string    // for the role
	admin  *pgx.Conn // the superuser's, who judges
	seen   map[string]*seen
}

// seen is when the guard first saw a statement of the role, and when it first ended its session. The clock of a
// statement goes on while the machine is suspended, and this one does not.
type seen struct{ first, ended time.Time }

// Limits of a program.
const (
	programServer  = 512 << 20        // bytes of memory of its Postgres, without what the processes share
	programFolder  = 512 << 20        // bytes of the files of its Postgres: tables, temporary files and log
	programEntries = 20_000           // of its Postgres
	programLocks   = 2000             // that the role holds; the lock table is that of the whole server
	programTime    = 20 * time.Second // of all plans, besides their searches and their own seconds
)

// timeOf returns how long a program may take for its plans. A search counts the time of the program's own statements
// by itself, and the last schedule of each may be run three times more.
func timeOf(ctx context.Context, plans []lab.Plan) time.Duration {
	limit, l := programTime, program.LimitsIn(ctx)
	for _, plan := range plans {
		limit += 6*l.Search + 7*l.Trial + time.Duration(plan.Seconds)*time.Second
	}
	return limit
}

// openPlace starts a Postgres, whose processes together have that much time of the processor.
func openPlace(ctx context.Context, s lab.Stores, processor time.Duration) (p *place, err error) {
	if s.Throwaway == nil {
		return nil, throwaway.ErrNone
	}
	programs, err := s.Throwaway(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", throwaway.ErrNone, err)
	}
	p = &place{}
	if p.server, err = throwaway.Start(ctx, programs,
		throwaway.Limits{Processor: processor, Memory: programServer, Folder: programFolder, Files: programEntries},
		childEnvironment(serverChild)); err != nil {
		return nil, err
	}
	if p.admin, err = pgx.Connect(ctx, p.server.URL(throwaway.Superuser)); err != nil {
		return nil, errors.Join(fmt.Errorf("the lab's database: %w", err), p.server.Close())
	}
	// a program may change its tables: nothing is prepared
	p.url = p.server.URL(throwaway.Role) + "&default_query_exec_mode=exec"
	return p, nil
}

// close ends the Postgres, even if ctx has ended.
func (p *place) close(ctx context.Context) error {
	_ = p.admin.Close(context.WithoutCancel(ctx))
	return p.server.Close()
}

// guard ends the role's statements that take too long, until ctx ends. It returns why the program must end, or an error
// if the Postgres does not answer and the program is not the reason. The role cannot keep its statements from being
// ended. What its Postgres may use in all is up to the wrapper.
func (p *place) guard(ctx context.Context) (*childProblem, error) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, nil
		case <-p.server.Ended():
			return p.ended(), nil
		case <-tick.C:
		}
		if problem, err := p.look(ctx); problem != nil || err != nil {
			return problem, err
		}
	}
}

// ended says why the Postgres has ended. It waits for the end.
func (p *place) ended() *childProblem {
	switch reason, text := p.server.Why(); reason {
	case throwaway.Processor:
		return &childProblem{lab.Endless,
			"the program's statements took more time of the processor than the program has"}
	case throwaway.Memory:
		return &childProblem{lab.ServerFull, fmt.Sprintf(
			"the program's statements want more than %d MB of the server's memory", programServer>>20)}
	case throwaway.Folder:
		return &childProblem{lab.TooLarge, fmt.Sprintf(
			"the program's tables, log and temporary files are larger than %d MB", programFolder>>20)}
	case throwaway.Files:
		return &childProblem{lab.TooLarge, fmt.Sprintf("the program's database has more than %d files", programEntries)}
	default:
		return &childProblem{lab.ServerFull, lab.OneLine("a statement of the program has ended its server: " + text)}
	}
}

// look ends the role's statements that take too long, and compares its locks with their limit. A statement that does
// not end when its session is ended looks for no interrupt: then the program ends, and the Postgres with it.
func (p *place) look(ctx context.Context) (*childProblem, error) {
	longest := program.LimitsIn(ctx).Statement
	asking, cancel := context.WithTimeout(ctx, 3*longest)
	defer cancel()
	var locks int
	var statements []string
	err := p.admin.QueryRow(asking, `
		select (select count(*) from pg_catalog.pg_locks l join pg_catalog.pg_stat_activity a using (pid) where l.mode <> 'SIReadLock' and a.usename = $1::name),
		       array(select pid || ' ' || query_start from pg_catalog.pg_stat_activity where usename = $1::name and state = 'active' and query_start is not null)`,
		throwaway.Role).Scan(&locks, &statements)
	cancels, ends, deaf := p.overdue(statements, longest)
	if err == nil && len(cancels)+len(ends) > 0 {
		_, err = p.admin.Exec(asking, `
			select case when s = any($2::text[]) then pg_catalog.pg_terminate_backend(pid) else pg_catalog.pg_cancel_backend(pid) end
			from   (select pid, pid || ' ' || query_start as s from pg_catalog.pg_stat_activity where state = 'active') running
			where  s = any($1::text[]) or s = any($2::text[])`, cancels, ends)
	}
	full := new(pgconn.PgError)
	switch {
	case ctx.Err() != nil:
		return nil, nil
	case err == nil && deaf:
		return &childProblem{lab.Endless, "a statement of the program does not end when it is told to"}, nil
	case err == nil && locks > programLocks:
		return &childProblem{lab.ServerFull, fmt.Sprintf("the program holds more than %d locks", programLocks)}, nil
	case errors.As(err, &full) && full.Code == "53200":
		return &childProblem{lab.ServerFull, "the server has no memory left for its locks"}, nil
	case err != nil && p.admin.IsClosed():
		return p.lost(ctx, 3*longest)
	}
	return nil, nil
}

// overdue remembers the statements that are running. It returns those to cancel and those whose sessions are to be
// ended, and whether one of them goes on although it was told so.
func (p *place) overdue(statements []string, longest time.Duration) (cancels, ends []string, deaf bool) {
	running := map[string]*seen{}
	for _, s := range statements {
		running[s] = cmp.Or(p.seen[s], &seen{first: time.Now()})
		switch was, age := running[s], time.Since(running[s].first); {
		case age <= longest:
		case age <= 2*longest:
			cancels = append(cancels, s)
		default:
			ends = append(ends, s)
			if was.ended.IsZero() {
				was.ended = time.Now()
			}
			deaf = deaf || time.Since(was.ended) > longest
		}
	}
	p.seen = running
	return cancels, ends, deaf
}

// lost comes when the superuser's connection is gone: with the Postgres, of which its wrapper says so in a moment, or
// because it did not answer in time. Then there is a second one. If that one comes to nothing either, a program whose
// Postgres has worked all the time is the reason; a machine that is too busy is none.
func (p *place) lost(ctx context.Context, limit time.Duration) (*childProblem, error) {
	select {
	case <-p.server.Ended():
		return p.ended(), nil
	case <-time.After(time.Second):
	}
	asking, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	again, err := pgx.Connect(asking, p.server.URL(throwaway.Superuser))
	switch {
	case err == nil:
		p.admin = again
		return nil, nil
	case ctx.Err() != nil:
		return nil, nil
	}
	err = fmt.Errorf("the lab's database does not answer: %w", err)
	if stuck := p.server.Close(); stuck != nil {
		return nil, errors.Join(err, stuck)
	}
	if reason, _ := p.server.Why(); reason != "" { // it has ended meanwhile
		return p.ended(), nil
	}
	if p.server.Used().Processor > limit {
		return &childProblem{lab.ServerFull, "the program's server no longer answers"}, nil
	}
	return nil, err
}

// Child says how the child processes of a job are started: this program with one more variable in its environment. A
// process in whose environment it is calls RunChild before anything else.
const Child = "MIAOSHA_LAB_PROGRAM"

// The values of Child.
const (
	programChild = "program" // runs a program
	serverChild  = "server"  // wraps its Postgres
)

// childJob is what a child reads from its standard input. Its end ends the child.
type childJob struct {
	Program     program.Program
	Plans       []childPlan
	DatabaseURL string
	JudgeURL    string // of the superuser
	Limits      program.Limits
	Processor   time.Duration
}

// childPlan is a plan with the fields that the pages do not send.
type childPlan struct {
	lab.Plan
	Nodes             int
	CrowdOnly, Closes bool
	Seats, Outlasts   bool
	Before            []string
}

func (p childPlan) plan() lab.Plan {
	p.Plan.Nodes, p.Plan.CrowdOnly, p.Plan.Closes = p.Nodes, p.CrowdOnly, p.Closes
	p.Plan.Seats, p.Plan.Outlasts, p.Plan.Before = p.Seats, p.Outlasts, p.Before
	return p.Plan
}

// childNews is a line of the child's standard output.
type childNews struct {
	Progress *lab.Progress `json:",omitempty"`
	Result   *lab.Result   `json:",omitempty"` // of the next plan
	Problem  *childProblem `json:",omitempty"` // the child has ended
}

type childProblem struct{ Problem, Text string }

// longestLine bounds a line of the child.
const longestLine = 8 << 20

// runChild runs the plans in a child process. It returns the results of those that were done, and why the others were
// not.
func (p *place) runChild(
	ctx context.Context, judged program.Program, plans []lab.Plan, report func(lab.Progress),
) ([]lab.Result, *childProblem, error) {
	limit := timeOf(ctx, plans)
	outer := ctx
	ctx, cancel := context.WithTimeout(outer, limit)
	defer cancel()
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = childEnvironment(programChild)
	job := childJob{Program: judged, DatabaseURL: p.url, JudgeURL: p.server.URL(throwaway.Superuser),
		Limits: program.LimitsIn(ctx), Processor: limit}
	for _, plan := range plans {
		job.Plans = append(job.Plans, childPlan{plan, plan.Nodes, plan.CrowdOnly, plan.Closes, plan.Seats,
			plan.Outlasts, plan.Before})
	}
	encoded, err := json.Marshal(job)
	if err != nil {
		return nil, nil, err
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	trouble := &firstBytes{}
	cmd.Stderr = trouble
	if err := cmd.Start(); err != nil {
		return nil, nil, fmt.Errorf("start the process of the program: %w", err)
	}
	var guarding sync.WaitGroup
	var stopped *childProblem
	var unguarded error
	guarded, unguard := context.WithCancel(ctx)
	guarding.Go(func() {
		if stopped, unguarded = p.guard(guarded); stopped != nil || unguarded != nil {
			_ = cmd.Process.Kill()
		}
	})
	_, _ = in.Write(append(encoded, '\n')) // a child that has died says so below
	var results []lab.Result
	var problem *childProblem
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, longestLine)
	for problem == nil && lines.Scan() {
		var news childNews
		if json.Unmarshal(lines.Bytes(), &news) != nil {
			continue
		}
		switch {
		case news.Progress != nil:
			report(*news.Progress)
		case news.Result != nil && len(results) < len(plans):
			results = append(results, *news.Result)
			now := lab.Progress{Strategy: lab.Student, Buyers: news.Result.Buyers, Answered: news.Result.Buyers,
				Sold:     news.Result.Sold,
				Oversold: news.Result.Oversold, Elapsed: int64(news.Result.Seconds * 1000), Done: news.Result}
			report(now)
		case news.Problem != nil:
			problem = news.Problem
		}
	}
	in.Close()
	if problem == nil && len(results) < len(plans) { // a line too long, or the child died
		_ = cmd.Process.Kill()
	}
	_, _ = io.Copy(io.Discard, out)
	ended := cmd.Wait()
	unguard()
	guarding.Wait()
	if stopped == nil && problem != nil && problem.Problem == lab.BadDatabase {
		// the child may know before the guard that its server is gone
		select {
		case <-p.server.Ended():
			stopped = p.ended()
		case <-time.After(time.Second):
		}
	}
	if err := cmp.Or(context.Cause(outer), unguarded); err != nil {
		return results, nil, err
	}
	switch {
	case len(results) == len(plans):
	case stopped != nil: // and what the child may say of it
		problem = stopped
	case problem != nil:
	case ctx.Err() != nil:
		problem = &childProblem{lab.Endless, fmt.Sprintf("the program did not end within %d s", int(limit.Seconds()))}
	default:
		problem = problemOf(cmd.ProcessState.ExitCode(), trouble.String())
	}
	if problem == nil && len(results) < len(plans) {
		return results, nil, fmt.Errorf("the process of the program ended: %v: %s", ended, trouble)
	}
	return results, problem, nil
}

// problemOf returns why a child has ended, by its exit code and what Go has written; nil if that is no fault of the
// program.
func problemOf(exit int, trouble string) *childProblem {
	switch {
	case exit == exitProcessor:
		return &childProblem{lab.Endless, "the program took more time of the processor than it has"}
	case exit == exitMemory, strings.Contains(trouble, "out of memory"),
		strings.Contains(trouble, "cannot allocate memory"),
		refusedMemory.MatchString(trouble):
		return &childProblem{lab.TooMuch, fmt.Sprintf("the program wants more than %d MB of memory", childMemory>>20)}
	case crash.MatchString(trouble): // of the Redis inside the child, for example
		return &childProblem{lab.BadRuntime, lab.OneLine("the process of the program crashed: " +
			crash.FindString(trouble))}
	}
	return nil
}

// refusedMemory matches what Go writes when its own collector uses memory that the system has refused, or when there is
// none for the stack of a thread (the C library then says "Resource temporarily unavailable"). A fault of any other
// code is a panic.
var refusedMemory = regexp.MustCompile(`(?m)^(SIG(SEGV|BUS): |runtime/cgo: pthread_create failed: )`)

// crash matches the line in which Go says why it ends a process.
var crash = regexp.MustCompile(`(?m)^(panic|fatal error): .*`)

// childEnvironment returns what the child needs to run, and nothing of the shop: no secret and no address of a store.
func childEnvironment(kind string) []string {
	env := []string{Child + "=" + kind}
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "TMP", "TEMP", "SystemRoot", "GOCOVERDIR", "TZ"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// firstBytes keeps the beginning of what is written to it.
type firstBytes struct {
	mu   sync.Mutex
	kept []byte
}

func (b *firstBytes) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	const most = 4 << 10
	if room := most - len(b.kept); room > 0 { // the first lines name the reason; the stacks come after
		b.kept = append(b.kept, p[:min(room, len(p))]...)
	}
	return len(p), nil
}

func (b *firstBytes) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(bytes.TrimSpace(slices.Clone(b.kept)))
}
