package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Usage is what a process has used.
type Usage struct {
	CPU    float64 `json:"cpu_seconds"`
	Memory int64   `json:"peak_bytes"`

	Resident int64 `json:"-"` // current memory
}

// clockTicks a second in /proc, on every Linux that Go supports.
const clockTicks = 100

// ProcessUsage reads the CPU time and memory of a process from /proc, so it works on Linux only.
func ProcessUsage(pid int) (u Usage, err error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return u, fmt.Errorf("read the usage of process %d: %w", pid, err)
	}
	// After the name in brackets, which may hold any character: field 3 is state, 14 utime, 15 stime.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 13 {
		return u, fmt.Errorf("read the usage of process %d: %q", pid, stat)
	}
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return u, fmt.Errorf("read the usage of process %d: %w", pid, err)
		}
		u.CPU += float64(n) / clockTicks
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return u, fmt.Errorf("read the usage of process %d: %w", pid, err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			u.Memory = kilobytes(rest)
		}
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			u.Resident = kilobytes(rest)
		}
	}
	return u, nil
}

// kilobytes parses "  1234 kB" and returns bytes.
func kilobytes(s string) int64 {
	kb, _ := strconv.ParseInt(strings.Fields(s)[0], 10, 64)
	return kb << 10
}

var metricsClient = http.Client{Timeout: 2 * time.Second}

// MetricsUsage reads the same from the metrics at a shop's ops address. The memory is the current one.
func MetricsUsage(ctx context.Context, url string) (u Usage, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(url, "/")+"/metrics", nil)
	if err != nil {
		return u, fmt.Errorf("read %s: %w", url, err)
	}
	resp, err := metricsClient.Do(req)
	if err != nil {
		return u, fmt.Errorf("read %s: %w", url, err)
	}
	defer resp.Body.Close()
	found := 0
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		n, err := strconv.ParseFloat(value, 64)
		switch {
		case err != nil:
		case name == "process_cpu_seconds_total":
			u.CPU, found = n, found+1
		case name == "process_resident_memory_bytes":
			u.Memory, found = int64(n), found+1
		}
	}
	u.Resident = u.Memory
	if found != 2 {
		return u, errors.New("no process metrics at " + url)
	}
	return u, nil
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
	return fmt.Sprintf("%d cores%s, %s/%s, %s", runtime.NumCPU(), model, runtime.GOOS, runtime.GOARCH, runtime.Version())
}
