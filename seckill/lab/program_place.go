package lab

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// place is a database and a log-in role that are made for one program. The role owns the database and has no other right,
// so that a program reaches nothing else.
type place struct {
	name  string
	url   string    // for the role
	admin *pgx.Conn // has the name of the place
}

// Limits of a program.
const (
	programConns  = 40               // connections of the role
	programData   = 256 << 20        // bytes of the database
	programServer = 512 << 20        // bytes of memory of the role's sessions in the server, where it is on this machine
	programLocks  = 2000             // that the role holds; the lock table is that of the whole server
	programTime   = 20 * time.Second // of all plans, besides their searches and their own seconds

	placePrefix  = "lab_mine_" // of databases and roles
	placeNumbers = 1_000_000_000_000
	placeFirst   = 8_000_000_000_000
)

// limits are the times that a program has, and how many schedules are searched. A test that is about none of these
// sets them so that no machine is too slow.
type limits struct {
	Compile   time.Duration // the source
	Statement time.Duration // the longest
	Search    time.Duration // of one plan; twice that for two buyers with one move at most
	Schedules int           // of one plan
	Trial     time.Duration // of one schedule; twice that when it is run again
}

type limitsKey struct{}

func limitsIn(ctx context.Context) limits {
	if l, ok := ctx.Value(limitsKey{}).(limits); ok {
		return l
	}
	return limits{Compile: 4 * time.Second, Statement: 2 * time.Second, Search: 4 * time.Second, Schedules: 1200, Trial: 3 * time.Second}
}

// openPlace removes the places of dead runs and makes a new one.
func openPlace(ctx context.Context, s Stores) (p *place, err error) {
	p = &place{name: placePrefix + strconv.FormatInt(placeFirst+mathrand.Int64N(placeNumbers), 10)}
	cfg, err := pgx.ParseConfig(s.DatabaseURL)
	if err != nil {
		return nil, errDatabaseURL
	}
	cfg.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	cfg.RuntimeParams["application_name"] = p.name // as long as it is there, no other run removes the place
	if p.admin, err = pgx.ConnectConfig(ctx, cfg); err != nil {
		return nil, fmt.Errorf("the lab's database: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("make a database for the program: %w", err), p.close(ctx))
		}
	}()
	if err = p.sweep(ctx); err != nil {
		return p, err
	}
	password := rand.Text()
	for _, statement := range []string{
		fmt.Sprintf(`create role %s login password '%s' connection limit %d`, p.name, password, programConns),
		// What the role cannot change for itself: a deadlock ends soon, and so does a sort that spills to the disk.
		fmt.Sprintf(`alter role %s set deadlock_timeout = '20ms'`, p.name),
		fmt.Sprintf(`alter role %s set temp_file_limit = '64MB'`, p.name),
		fmt.Sprintf(`alter role %s set synchronous_commit = off`, p.name),
		// What a program raises is read by its author. The log of the server has no bound.
		fmt.Sprintf(`alter role %s set log_min_messages = panic`, p.name),
		fmt.Sprintf(`alter role %s set client_min_messages = warning`, p.name),
		fmt.Sprintf(`create database %s owner %s`, p.name, p.name),
		fmt.Sprintf(`revoke all on database %s from public`, p.name),
	} {
		if _, err = p.admin.Exec(ctx, statement); err != nil {
			return p, err
		}
	}
	p.url, err = urlFor(s.DatabaseURL, p.name, password)
	return p, err
}

// urlFor returns the address of the same server for the database and role of this name.
func urlFor(databaseURL, name, password string) (string, error) {
	role, err := urlOf(databaseURL, name, password)
	if err != nil {
		return "", err
	}
	u, err := url.Parse(role)
	if err != nil {
		return "", errDatabaseURL
	}
	u.Path = "/" + name
	query := u.Query()
	for _, name := range []string{"dbname", "database", "application_name", "options"} {
		query.Del(name)
	}
	query.Set("default_query_exec_mode", "exec") // a program may change its tables: nothing is prepared
	u.RawQuery = query.Encode()
	return u.String(), nil
}

// sweep removes the places of dead runs: no connection has their name. Roles belong to all databases of a server, so the
// lock of a namespace would not do.
func (p *place) sweep(ctx context.Context) error {
	rows, _ := p.admin.Query(ctx, `
		select rolname from pg_roles
		where  rolname ~ '^`+placePrefix+`8[0-9]{12}$'
		and    not exists (select from pg_stat_activity where application_name = rolname)`)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, name := range names { // another run may remove it at the same time
		_ = p.remove(ctx, name)
	}
	return nil
}

func (p *place) remove(ctx context.Context, name string) error {
	if _, err := p.admin.Exec(ctx, endSessions, name); err != nil { // they may hold the locks that the next statement needs
		return err
	}
	if _, err := p.admin.Exec(ctx, `drop database if exists `+name+` with (force)`); err != nil {
		return err
	}
	_, err := p.admin.Exec(ctx, `drop role if exists `+name)
	return err
}

// endSessions ends all sessions of a role, and then waits for each.
const endSessions = `
	with ended as materialized (select pid, pg_terminate_backend(pid) from pg_stat_activity where usename = $1)
	select pg_terminate_backend(pid, 200) from ended where (select count(*) from ended) > 0`

// close removes the place, even if ctx has ended.
func (p *place) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	if p.admin.IsClosed() { // pgx closes it after a cancelled statement
		again, err := pgx.ConnectConfig(ctx, p.admin.Config())
		if err != nil {
			return fmt.Errorf("remove the database of a program: %w", err)
		}
		p.admin = again
	}
	return errors.Join(p.remove(ctx, p.name), p.admin.Close(ctx))
}

// guard ends what the role must not do, until ctx ends: a statement that takes too long, and sessions that take what the
// whole server has only once. It returns why the program must end, or nil. The role cannot keep its statements from being
// ended.
func (p *place) guard(ctx context.Context) *childProblem {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if problem := p.look(ctx); problem != nil {
			return problem
		}
	}
}

// look ends the role's statements that take too long, and compares what the role has with its limits.
func (p *place) look(ctx context.Context) *childProblem {
	var size int64
	var locks int
	var sessions []int
	err := p.admin.QueryRow(ctx, `
		with mine as (
		  select pid, state = 'active' and now() - query_start > $2::interval as late, now() - query_start > $2::interval * 2 as stubborn
		  from   pg_stat_activity where usename = $1::name
		), ended as (
		  select case when stubborn then pg_terminate_backend(pid) else pg_cancel_backend(pid) end from mine where late
		)
		select pg_database_size($1::name) + 0 * (select count(*) from ended),
		       (select count(*) from pg_locks where mode <> 'SIReadLock' and pid in (select pid from mine)),
		       (select coalesce(array_agg(pid), '{}') from mine)`,
		p.name, limitsIn(ctx).Statement.String()).Scan(&size, &locks, &sessions)
	full := new(pgconn.PgError)
	switch {
	case ctx.Err() != nil:
		return nil
	case err == nil && size > programData:
		return &childProblem{TooLarge, fmt.Sprintf("the program's tables are larger than %d MB", programData>>20)}
	case err == nil && locks > programLocks:
		return &childProblem{ServerFull, fmt.Sprintf("the program holds more than %d locks", programLocks)}
	case errors.As(err, &full) && full.Code == "53200":
		return &childProblem{ServerFull, "the server has no memory left for its locks"}
	case err == nil && p.memory(sessions) > programServer:
		return &childProblem{ServerFull, fmt.Sprintf("the program's statements want more than %d MB of the server's memory", programServer>>20)}
	case err != nil && p.admin.IsClosed():
		return &childProblem{BadDatabase, "the connection that guards the program's database was lost"}
	}
	return nil
}

// memory returns how much memory the server's processes for these sessions have for themselves. It is 0 where the server is
// on another machine or has no /proc.
func (p *place) memory(sessions []int) (bytes int64) {
	for _, pid := range sessions {
		title, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err != nil || !strings.Contains(string(title), p.name) { // a process of this machine with the same number
			continue
		}
		pages, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
		if err != nil {
			continue
		}
		var size, resident, shared int64
		if _, err := fmt.Sscan(string(pages), &size, &resident, &shared); err == nil {
			bytes += (resident - shared) * int64(os.Getpagesize())
		}
	}
	return bytes
}

// Child says how the child process of a program is started: this program with one more variable in its environment. A
// process in whose environment it is calls RunChild before anything else.
const Child = "MIAOSHA_LAB_PROGRAM"

// childJob is what a child reads from its standard input. Its end ends the child.
type childJob struct {
	Program     Program
	Plans       []childPlan
	DatabaseURL string
	Limits      limits
}

// childPlan is a plan with the fields that the pages do not send.
type childPlan struct {
	Plan
	Nodes             int
	CrowdOnly, Closes bool
}

func (p childPlan) plan() Plan {
	p.Plan.Nodes, p.Plan.CrowdOnly, p.Plan.Closes = p.Nodes, p.CrowdOnly, p.Closes
	return p.Plan
}

// childNews is a line of the child's standard output.
type childNews struct {
	Progress *Progress     `json:",omitempty"`
	Result   *Result       `json:",omitempty"` // of the next plan
	Problem  *childProblem `json:",omitempty"` // the child has ended
}

type childProblem struct{ Problem, Text string }

// longestLine bounds a line of the child.
const longestLine = 8 << 20

// runChild runs the plans in a child process. It returns the results of those that were done, and why the others were not.
func (p *place) runChild(ctx context.Context, program Program, plans []Plan, report func(Progress)) ([]Result, *childProblem, error) {
	limit, l := programTime, limitsIn(ctx)
	for _, plan := range plans {
		limit += 2*l.Search + 3*l.Trial + time.Duration(plan.Seconds)*time.Second // the last schedule may be run again
	}
	outer := ctx
	ctx, cancel := context.WithTimeout(outer, limit)
	defer cancel()
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = childEnvironment()
	job := childJob{Program: program, DatabaseURL: p.url, Limits: l}
	for _, plan := range plans {
		job.Plans = append(job.Plans, childPlan{plan, plan.Nodes, plan.CrowdOnly, plan.Closes})
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
	guarded, unguard := context.WithCancel(ctx)
	guarding.Go(func() {
		if stopped = p.guard(guarded); stopped != nil {
			_ = cmd.Process.Kill()
			_, _ = p.admin.Exec(ctx, endSessions, p.name) // that their client is gone would end them late
		}
	})
	_, _ = in.Write(append(encoded, '\n')) // a child that has died says so below
	var results []Result
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
			now := Progress{Strategy: Mine, Buyers: news.Result.Buyers, Answered: news.Result.Buyers, Sold: news.Result.Sold,
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
	if err := context.Cause(outer); err != nil {
		return results, nil, err
	}
	switch {
	case len(results) == len(plans):
	case stopped != nil: // and what the child may say of it
		problem = stopped
	case problem != nil:
	case ctx.Err() != nil:
		problem = &childProblem{Endless, fmt.Sprintf("the program did not end within %d s", int(limit.Seconds()))}
	default:
		problem = problemOf(cmd.ProcessState.ExitCode(), trouble.String())
	}
	if problem == nil && len(results) < len(plans) {
		return results, nil, fmt.Errorf("the process of the program ended: %v: %s", ended, trouble)
	}
	return results, problem, nil
}

// problemOf returns why a child has ended, by its exit code and what Go has written; nil if that is no fault of the program.
func problemOf(exit int, trouble string) *childProblem {
	switch {
	case exit == exitMemory, strings.Contains(trouble, "out of memory"), strings.Contains(trouble, "cannot allocate memory"),
		refusedMemory.MatchString(trouble):
		return &childProblem{TooMuch, fmt.Sprintf("the program wants more than %d MB of memory", childMemory>>20)}
	case crash.MatchString(trouble): // of the Redis inside the child, for example
		return &childProblem{BadRuntime, oneLine("the process of the program crashed: " + crash.FindString(trouble))}
	}
	return nil
}

// refusedMemory matches what Go writes when its own collector uses memory that the system has refused, or when there is none for
// the stack of a thread (the C library then says "Resource temporarily unavailable"). A fault of any other code is a panic.
var refusedMemory = regexp.MustCompile(`(?m)^(SIG(SEGV|BUS): |runtime/cgo: pthread_create failed: )`)

// crash matches the line in which Go says why it ends a process.
var crash = regexp.MustCompile(`(?m)^(panic|fatal error): .*`)

// childEnvironment returns what the child needs to run, and nothing of the shop: no secret and no address of a store.
func childEnvironment() []string {
	env := []string{Child + "=1"}
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
