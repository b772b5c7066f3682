package operator

import (
	"context"
	"net/netip"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/procfs"
	"github.com/redis/go-redis/v9"
)

// postgresCPU returns the processor time of all processes of Postgres so far, in seconds. It reads /proc, so it is 0 if
// Postgres is on another machine or the system is not Linux.
func postgresCPU(ctx context.Context, db *pgxpool.Pool) (seconds float64) {
	var pid int
	var at string // "" for a Unix socket
	if err := db.QueryRow(ctx, `select pg_backend_pid(), coalesce(host(inet_server_addr()), '')`).Scan(&pid, &at); err != nil {
		return 0
	}
	if ip, err := netip.ParseAddr(at); at != "" && (err != nil || !ip.IsLoopback()) {
		return 0
	}
	stat := func(pid int) (s procfs.ProcStat, isPostgres bool) {
		p, err := procfs.NewProc(pid)
		if err == nil {
			s, err = p.Stat()
		}
		return s, err == nil && strings.HasPrefix(s.Comm, "postgres")
	}
	backend, here := stat(pid)
	main, hasMain := stat(backend.PPID)
	processes, err := procfs.AllProcs()
	if !here || !hasMain || err != nil {
		return 0
	}
	const ticks = 100                                                 // a second, on every Linux
	seconds = main.CPUTime() + float64(main.CUTime+main.CSTime)/ticks // of itself, and of the processes that have ended
	for _, p := range processes {
		if s, ok := stat(p.PID); ok && s.PPID == main.PID {
			seconds += s.CPUTime()
		}
	}
	return seconds
}

// redisCPU returns the processor time of Redis so far, in seconds; 0 if it does not say, or is a Cluster.
func redisCPU(ctx context.Context, rdb redis.UniversalClient) (seconds float64) {
	if _, many := rdb.(*redis.ClusterClient); many {
		return 0
	}
	info, _ := rdb.Info(ctx, "cpu").Result()
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if n, err := strconv.ParseFloat(value, 64); err == nil && (name == "used_cpu_sys" || name == "used_cpu_user") {
			seconds += n
		}
	}
	return seconds
}
