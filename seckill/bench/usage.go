package bench

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"
)

// Usage is what a process has used.
type Usage struct {
	CPU    float64 `json:"cpu_seconds"`
	Memory int64   `json:"peak_bytes"`

	Resident int64 `json:"-"` // current memory
}

// Counters are metrics of a shop that only grow.
type Counters struct {
	Allocations, AllocatedBytes float64
	ReserveCalls, Clicks        float64 // calls of the reserve script, and the clicks in them
	SettleCalls, Tickets        float64 // settle transactions, and the tickets in them
	// how often and how long one held a connection of Postgres, wasted ones included
	Held, HeldSeconds float64
}

// ProcessUsage reads the CPU time and memory of a process from /proc, so it works on Linux only.
func ProcessUsage(pid int) (u Usage, err error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return u, fmt.Errorf("read the usage of process %d: %w", pid, err)
	}
	stat, err := p.Stat()
	if err != nil {
		return u, fmt.Errorf("read the usage of process %d: %w", pid, err)
	}
	status, err := p.NewStatus()
	if err != nil {
		return u, fmt.Errorf("read the usage of process %d: %w", pid, err)
	}
	return Usage{CPU: stat.CPUTime(), Memory: int64(status.VmHWM), Resident: int64(status.VmRSS)}, nil
}

var metricsClient = http.Client{Timeout: 2 * time.Second}

// MetricsUsage reads the same from the metrics at a shop's ops address. The memory is the current one.
func MetricsUsage(ctx context.Context, url string) (u Usage, err error) {
	var memory float64
	err = readMetrics(ctx, url, map[string]*float64{"process_cpu_seconds_total": &u.CPU,
		"process_resident_memory_bytes": &memory})
	u.Memory, u.Resident = int64(memory), int64(memory)
	return u, err
}

// MetricsCounters reads a shop's counters at its ops address.
func MetricsCounters(ctx context.Context, url string) (c Counters, err error) {
	err = readMetrics(ctx, url, map[string]*float64{"go_memstats_mallocs_total": &c.Allocations,
		"go_memstats_alloc_bytes_total":  &c.AllocatedBytes,
		"miaosha_lane_batch_users_count": &c.ReserveCalls, "miaosha_lane_batch_users_sum": &c.Clicks,
		"miaosha_settle_batch_tickets_count": &c.SettleCalls, "miaosha_settle_batch_tickets_sum": &c.Tickets,
		"miaosha_settle_connection_seconds_count": &c.Held, "miaosha_settle_connection_seconds_sum": &c.HeldSeconds})
	return c, err
}

// readMetrics reads metrics into the numbers, by name. All must be there.
func readMetrics(ctx context.Context, url string, numbers map[string]*float64) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(url, "/")+"/metrics", nil)
	if err != nil {
		return fmt.Errorf("read %s: %w", url, err)
	}
	resp, err := metricsClient.Do(req)
	if err != nil {
		return fmt.Errorf("read %s: %w", url, err)
	}
	defer resp.Body.Close()
	found := 0
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		number := numbers[name]
		if n, err := strconv.ParseFloat(value, 64); err == nil && number != nil {
			*number, found = n, found+1
		}
	}
	if found != len(numbers) {
		return fmt.Errorf("%d of %d metrics are at %s", found, len(numbers), url)
	}
	return nil
}

// Machine describes the machine that runs the bench.
func Machine() string {
	model := ""
	text, _ := os.ReadFile("/proc/cpuinfo") // on systems other than Linux the model is missing
	for line := range strings.Lines(string(text)) {
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
			model = ", " + strings.TrimSpace(value)
			break
		}
	}
	return fmt.Sprintf("%d cores%s, %s/%s, %s", runtime.NumCPU(), model, runtime.GOOS, runtime.GOARCH,
		runtime.Version())
}
