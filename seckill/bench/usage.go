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

// Usage is what a process has cost.
type Usage struct {
	CPU    float64 `json:"cpu_seconds"`
	Memory int64   `json:"peak_bytes"`

	Resident int64 `json:"-"` // memory of this moment
}

// ticks to a second in /proc, on every Linux that Go runs on.
const ticks = 100

// OfProcess reads a process's CPU time and peak memory from /proc. Elsewhere than on Linux it fails.
func OfProcess(pid int) (u Usage, err error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return u, fmt.Errorf("read what process %d costs: %w", pid, err)
	}
	// Behind the name, which is in brackets and may hold anything: state is the third field, utime and stime are 14 and 15.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 13 {
		return u, fmt.Errorf("read what process %d costs: %q", pid, stat)
	}
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return u, fmt.Errorf("read what process %d costs: %w", pid, err)
		}
		u.CPU += float64(n) / ticks
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return u, fmt.Errorf("read what process %d costs: %w", pid, err)
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

// kilobytes reads "  1234 kB" and gives bytes.
func kilobytes(s string) int64 {
	kb, _ := strconv.ParseInt(strings.Fields(s)[0], 10, 64)
	return kb << 10
}

var ops = http.Client{Timeout: 2 * time.Second}

// OfMetrics reads the same from the metrics at a shop's ops address. The memory is that of the moment.
func OfMetrics(ctx context.Context, url string) (u Usage, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(url, "/")+"/metrics", nil)
	if err != nil {
		return u, fmt.Errorf("read %s: %w", url, err)
	}
	resp, err := ops.Do(req)
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
		return u, errors.New("no figures of the process at " + url)
	}
	return u, nil
}

// Machine says where the figures come from.
func Machine() string {
	model := ""
	text, _ := os.ReadFile("/proc/cpuinfo") // elsewhere than on Linux the model stays out
	for line := range strings.Lines(string(text)) {
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
			model = ", " + strings.TrimSpace(value)
			break
		}
	}
	return fmt.Sprintf("%d cores%s, %s/%s, %s", runtime.NumCPU(), model, runtime.GOOS, runtime.GOARCH, runtime.Version())
}
