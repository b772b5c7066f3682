package web

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestCosts prints what the worst requests that are known take of a processor, with tables of a hundred thousand rows: the shop, its
// Postgres, its Redis, and the client, which is in this process. It is no test of a bound: make costs runs it.
func TestCosts(t *testing.T) {
	rows, _ := strconv.Atoi(os.Getenv("MIAOSHA_COSTS"))
	if rows == 0 {
		t.Skip("make costs runs it")
	}
	c := openCostShop(t, openWorld(t, 1), rows)
	before := c.processor()
	time.Sleep(3 * time.Second) //timing: what the shop takes when no one asks it for anything
	c.idle = float64(c.processor()-before) / float64(3*time.Second)
	only := os.Getenv("MIAOSHA_COSTS_ONLY")
	fmt.Println("| route | worst input | bytes | µs | µs a byte | limit a second | of a core |")
	fmt.Println("|---|---|---:|---:|---:|---:|---:|")
	for _, row := range costs {
		if only != "" && !strings.Contains(row.route, only) {
			continue
		}
		worst, name, bytes, status := time.Duration(0), "", 0, 0
		worst, bytes, status = c.took(row, "", "", "")
		name = row.what
		if worst < 200*time.Millisecond { // else what is around it makes no difference
			headers, query := allHostile()
			if took, n, got := c.took(row, headers, query, ""); float64(took) > 1.1*float64(worst) {
				worst, name, bytes, status = took, strings.Trim(row.what+", headers and a query of 8 KB", ", "), n, got
			}
		}
		if strings.HasPrefix(row.route, "POST") && worst < 200*time.Millisecond {
			for what, body := range hostileBodies {
				if took, n, got := c.took(row, "", "", body); float64(took) > 1.2*float64(worst) {
					worst, name, bytes, status = took, what, n, got
				}
			}
		}
		most := rateOf(row.route)
		us := float64(worst.Nanoseconds()) / 1000
		fmt.Printf("| `%s` (%d) | %s | %d | %.0f | %.2f | %.3g | %.1f %% |\n", row.route, status, name, bytes, us, us/float64(max(1, bytes)), most, most*worst.Seconds()*100)
	}
}

// took returns the processor time of a request, its bytes, and the status of its answer.
func (c *costShop) took(row cost, header, query, body string) (each time.Duration, bytes, status int) {
	c.t.Helper()
	send := func() {
		raw := c.request(row, header, query, body)
		bytes = len(raw)
		var err error
		if status, err = c.send(raw); err != nil {
			c.t.Fatalf("%s: %v", row.route, err)
		}
	}
	send()
	before, n, began := c.processor(), 0, time.Now()
	for n < 60 {
		send()
		if n++; n >= 2 && n%10 == 2 && c.processor()-before > 200*time.Millisecond {
			break
		}
	}
	all := c.processor() - before - time.Duration(c.idle*float64(time.Since(began)))
	return max(0, all) / time.Duration(n), bytes, status
}

// processor returns the processor time that this process, the backends of the shop in Postgres and its Redis have taken.
func (c *costShop) processor() (all time.Duration) {
	c.t.Helper()
	var own syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err != nil {
		c.t.Fatal(err)
	}
	all = time.Duration(own.Utime.Nano() + own.Stime.Nano())
	var pids []int
	if err := c.db.QueryRow(c.t.Context(), `select array_agg(pid) from pg_stat_activity where datname = current_database()`).Scan(&pids); err != nil {
		c.t.Fatal(err)
	}
	for _, pid := range pids {
		if raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid)); err == nil {
			ns, _ := strconv.ParseInt(strings.Fields(string(raw))[0], 10, 64)
			all += time.Duration(ns)
		}
	}
	info, err := c.rdb.Info(c.t.Context(), "cpu").Result()
	if err != nil {
		c.t.Fatal(err)
	}
	for line := range strings.Lines(info) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), ":"); slices.Contains([]string{"used_cpu_sys", "used_cpu_user"}, name) {
			s, _ := strconv.ParseFloat(value, 64)
			all += time.Duration(s * float64(time.Second))
		}
	}
	return all
}
