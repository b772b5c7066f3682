package throwaway

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// rank takes hours and looks for no interrupt.
const rank = `select ts_rank(v::tsvector, q::tsquery) from (
	select string_agg('a' || i || ':' || p, ' ') v, string_agg('a' || i, ' & ') q
	from generate_series(1, 1500) i, (select string_agg(g::text, ',') p from generate_series(1, 250) g) x) y`

// endless are statements that go on until the server is at a limit, or until a file or a piece of memory is larger than one process
// may have. Each has a server of its own.
var endless = map[string]string{
	"a rank over a long vector":      rank,
	"the same without a time limit":  `set statement_timeout = 0; ` + rank,
	"a long series":                  `select count(*) from generate_series(1, 1000000000000)`,
	"a recursion":                    `with recursive r as (select 1 union all select 1 from r) select count(*) from r`,
	"a join of everything":           `select count(*) from pg_proc a, pg_proc b, pg_proc c`,
	"a regular expression":           `select repeat('a', 2001) ~ '^(a*)(a*)(a*)(a*)\1\2\3\4$'`,
	"a loop":                         `do $$ begin loop end loop; end $$`,
	"a loop that is not cancelled":   `do $$ begin loop begin loop end loop; exception when query_canceled then end; end loop; end $$`,
	"numbers with many digits":       `select factorial(30000) from generate_series(1, 1000)`,
	"a series in JSON":               `select jsonb_agg(i) from generate_series(1, 100000000) i`,
	"a large table":                  `create table t as select repeat(i::text, 100) from generate_series(1, 100000000) i`,
	"a large unlogged table":         `create unlogged table t as select repeat(i::text, 100) from generate_series(1, 100000000) i`,
	"a large temporary table":        `create temporary table t as select repeat(i::text, 100) from generate_series(1, 100000000) i`,
	"large objects":                  `select lo_from_bytea(0, convert_to(repeat(md5(i::text), 10000), 'UTF8')) from generate_series(1, 100000) i`,
	"a wide index":                   `create table t (a text); create index on t (a); insert into t select md5(i::text) || md5((i + 1)::text) from generate_series(1, 100000000) i`,
	"a full log":                     `do $$ begin for i in 1..1000000 loop perform pg_logical_emit_message(false, 'x', repeat(md5(i::text), 10000)); end loop; end $$`,
	"updates in one transaction":     `create table t as select 1 as a;; do $$ begin loop update t set a = a + 1; end loop; end $$`,
	"messages without a reader":      `listen c; begin; do $$ begin for i in 1..100000 loop perform pg_notify('c', repeat('x', 7000) || i); end loop; end $$; commit; select pg_sleep(3600)`,
	"messages, committed":            `listen c;; do $$ begin loop perform pg_notify('c', repeat('x', 7000) || random()); commit; end loop; end $$`,
	"tables in transactions":         `do $$ begin for i in 1..100000 loop execute 'create table t' || i || ' (a int primary key)'; commit; end loop; end $$`,
	"sequences in transactions":      `do $$ begin for i in 1..100000 loop execute 'create sequence s' || i; commit; end loop; end $$`,
	"functions in transactions":      `do $$ begin for i in 1..1000000 loop execute 'create function f' || i || '() returns text language sql as $x$ select ' || quote_literal(repeat(md5(i::text), 1000)) || '$x$'; commit; end loop; end $$`,
	"comments":                       `create table t ();; do $$ begin loop execute 'comment on table t is ' || quote_literal(repeat(md5(random()::text), 1000)); commit; end loop; end $$`,
	"subtransactions":                `create table t (a int);; do $$ begin loop begin insert into t values (1); exception when others then end; end loop; end $$`,
	"prepared statements":            `do $$ begin for i in 1..10000000 loop execute 'prepare p' || i || ' as select ' || i; end loop; end $$`,
	"a large array":                  `select array_agg(repeat(i::text, 100000)) from generate_series(1, 100000) i`,
	"a sort of everything, for ever": `do $$ begin loop perform count(*) from (select md5(i::text) from generate_series(1, 100000) i order by 1) s; end loop; end $$`,
}

// No statement goes on for longer than its server may, and nothing of the server is left.
func TestNoStatementOutlivesItsServer(t *testing.T) {
	t.Parallel()
	atOnce := make(chan struct{}, 3)
	for name, sql := range endless {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			atOnce <- struct{}{}
			defer func() { <-atOnce }()
			s := open(t, tight)
			c := connect(t, s, Role)
			var err error
			for _, one := range strings.Split(sql, ";;") { // some are no part of a transaction
				_, err = c.PgConn().Exec(t.Context(), one).ReadAll()
			}
			if pg := new(pgconn.PgError); errors.As(err, &pg) && !strings.HasPrefix(pg.Code, "57P") {
				if !strings.HasPrefix(pg.Code, "53") && !strings.HasPrefix(pg.Code, "58") && pg.Code != "54000" {
					t.Errorf("the statement ended with %v", err)
				}
				t.Logf("refused: %v", err)
				return
			}
			if err == nil {
				t.Fatal("the statement has ended")
			}
			reason, text := s.Why()
			if reason == Crashed || sql == rank && reason != Processor {
				t.Errorf("ended because of %q (%s)", reason, text)
			}
			nothingLeft(t, s.folder)
			t.Logf("%s, %d ms of the processor", reason, s.Used().Processor.Milliseconds())
		})
	}
}

// Sixteen sessions together have no more than one.
func TestSessionsShareTheirLimits(t *testing.T) {
	t.Parallel()
	limits := tight
	limits.Processor = 2 * time.Second
	s := open(t, limits)
	var all sync.WaitGroup
	var sessions []*pgx.Conn
	for range 16 {
		sessions = append(sessions, connect(t, s, Role))
	}
	for _, c := range sessions {
		all.Go(func() { _, _ = c.Exec(context.Background(), `do $$ begin loop end loop; end $$`) })
	}
	if reason, text := s.Why(); reason != Processor {
		t.Errorf("ended because of %q (%s)", reason, text)
	}
	all.Wait()
	if used := s.Used().Processor; used > 8*limits.Processor { // by their own limits they would use 16 times 3 s
		t.Errorf("used %v", used)
	}
}

// refusals are statements that the server does not let a program do, with the codes of its errors.
var refusals = map[string]string{
	`select count(pg_advisory_lock(i)) from (select generate_series(1, 10000000) i) x`:                              "53200",
	`begin; create table gid (a int); prepare transaction 'x'`:                                                      "55000",
	`select length(repeat('x', 1000000000) || repeat('x', 1000000000))`:                                             "53200 54000",
	`select xmlparse(document '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;">]><x>&c;</x>')`: "2200M 0A000",
	`create function f(int) returns int language plpgsql as 'begin return f($1) + 1; end'; select f(1)`:             "54001",
	`select lo_import('/etc/passwd')`:                                                                               "42501",
	`select lo_export(1, '/tmp/x')`:                                                                                 "42501",
	`copy (select 1) to '/tmp/x'`:                                                                                   "42501",
	`copy (select 1) to program 'id'`:                                                                               "42501",
	`create table passwd (a text); copy passwd from '/etc/passwd'`:                                                  "42501",
	`select pg_read_file('/etc/passwd')`:                                                                            "42501",
	`select pg_ls_dir('/')`:                                                                                         "42501",
	`create role other`:                                                                                             "42501",
	`create role other superuser`:                                                                                   "42501",
	`alter role program superuser`:                                                                                  "42501",
	`alter role program connection limit 1000`:                                                                      "42501",
	`alter role program set log_min_messages = debug5`:                                                              "42501",
	`set role lab`:                            "42501",
	`set session authorization lab`:           "42501",
	`create database other`:                   "42501",
	`drop database lab`:                       "55006 42501",
	`create tablespace other location '/tmp'`: "42501",
	`create extension dblink`:                 "42501 0A000 58P01",
	`create extension file_fdw`:               "42501 0A000 58P01",
	`create language plpython3u`:              "42501 0A000 58P01 42704",
	`create event trigger e on ddl_command_start execute function now()`: "42501 42883 42P17",
	`create function c() returns int language c as 'libc', 'abort'`:      "42501",
	`create function c() returns int language internal as 'int4in'`:      "42501",
	`alter system set max_connections = 1000`:                            "42501",
	`select pg_reload_conf()`:                                            "42501",
	`select pg_rotate_logfile()`:                                         "42501",
	`select pg_switch_wal()`:                                             "42501",
	`select pg_create_physical_replication_slot('x')`:                    "42501 55000",
	`checkpoint`: "42501",
	`create subscription s connection 'host=127.0.0.1' publication p`:              "42501",
	`create publication p for all tables`:                                          "42501",
	`create server s foreign data wrapper postgres_fdw`:                            "42704",
	`select pg_terminate_backend(pid) from pg_stat_activity where usename = 'lab'`: "42501",
	`select pg_cancel_backend(pid) from pg_stat_activity where usename = 'lab'`:    "42501",
	`set session_replication_role = replica`:                                       "42501",
	`set temp_file_limit = -1`:                                                     "42501",
	`set deadlock_timeout = '1h'`:                                                  "42501",
	`set log_min_messages = debug5`:                                                "42501",
	`set max_stack_depth = '1GB'`:                                                  "42501 22023",
	`begin; lock table pg_catalog.pg_class`:                                        "42501",
	`begin; lock table pg_catalog.pg_authid in access share mode`:                  "42501",
	`select * from pg_catalog.pg_authid`:                                           "42501",
	`delete from pg_catalog.pg_class`:                                              "42501",
	`comment on role lab is 'x'`:                                                   "42501",
}

// What is not a program's is refused, and the server goes on.
func TestAProgramHasNoRightBesideItsDatabase(t *testing.T) {
	t.Parallel()
	s := open(t, Limits{Processor: roomy.Processor, Memory: 256 << 20, Folder: 1 << 30, Files: 100_000})
	admin := connect(t, s, Superuser)
	for sql, codes := range refusals {
		c := connect(t, s, Role)
		_, err := c.PgConn().Exec(t.Context(), sql).ReadAll()
		if pg := new(pgconn.PgError); !errors.As(err, &pg) || !strings.Contains(codes, pg.Code) {
			t.Errorf("%s: %v, want one of %s", sql, err, codes)
		}
		c.Close(t.Context())
	}
	if err := admin.Ping(t.Context()); err != nil {
		t.Errorf("the judge's connection after that: %v", err)
	}
}
