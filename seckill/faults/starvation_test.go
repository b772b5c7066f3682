//go:build faults && linux

package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// starvedShare is the share of all processors that others must have taken during a row before a bound that it has
// missed is inconclusive. The bounds leave room for a machine that does a little else. One that lacks more than a
// quarter of its processors is another machine than the one that the promises are for.
const starvedShare = 0.25

// cpuUse is how long the processors have worked since the machine has started, in ticks of a hundredth of a second.
type cpuUse struct {
	all  uint64 // of all processors together, with the time in which they had nothing to do
	busy uint64 // in processes, and what the host has stolen
	tree uint64 // of busy, in the suite's own process tree
}

// outside returns the share of the processors that others than the suite have used between two readings.
func (from cpuUse) outside(to cpuUse) float64 {
	all, busy, tree := to.all-from.all, to.busy-from.busy, to.tree-from.tree
	if all == 0 || busy <= tree {
		return 0
	}
	return float64(busy-tree) / float64(all)
}

// ownOrphans makes the suite the parent of every process whose own parent ends, as init would be. So no process that
// the suite has started leaves its tree, and what a process has used is never lost: it is in the process itself, as
// long as that exists, and then in the parent that has waited for it.
func ownOrphans(on bool) error {
	arg := uintptr(0)
	if on {
		arg = 1
	}
	return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, arg, 0, 0, 0)
}

// meter measures what others take from the suite.
type meter struct{ from cpuUse }

// startMeter reads the tree before the processors, and outside reads it after them: an error of the order makes the
// tree larger. A process that ends while the tree is read can be missed, or counted twice. So the first reading is the
// least of three, and the last one is the largest.
func startMeter() (m meter, err error) {
	m.from.tree = ^uint64(0)
	for range 3 {
		tree, err := treeTicks()
		if err != nil {
			return m, err
		}
		m.from.tree = min(m.from.tree, tree)
	}
	m.from.all, m.from.busy, err = processorTicks()
	return m, err
}

// outside returns the share of the processors that others have had since the start.
func (m meter) outside() (share float64, err error) {
	var to cpuUse
	if to.all, to.busy, err = processorTicks(); err != nil {
		return 0, err
	}
	for range 3 {
		tree, err := treeTicks()
		if err != nil {
			return 0, err
		}
		to.tree = max(to.tree, tree)
	}
	return m.from.outside(to), nil
}

func processorTicks() (all, busy uint64, err error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0, err
	}
	return parseProcessors(string(text))
}

// parseProcessors reads the first line of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal, and of
// user again the guests. Interrupts are not busy here: they belong to no process, and most of them are for the network
// of the suite itself.
func parseProcessors(stat string) (all, busy uint64, err error) {
	line, _, _ := strings.Cut(stat, "\n")
	words := strings.Fields(line)
	if len(words) < 9 || words[0] != "cpu" {
		return 0, 0, fmt.Errorf("/proc/stat begins with %q", line)
	}
	for i, word := range words[1:9] {
		n, err := strconv.ParseUint(word, 10, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("/proc/stat begins with %q", line)
		}
		all += n
		switch i {
		case 0, 1, 2, 7: // user, nice, system, steal
			busy += n
		}
	}
	return all, busy, nil
}

// treeTicks returns what the suite's process and all its descendants have used, with their children that have ended.
func treeTicks() (uint64, error) {
	paths, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	var all []processTicks
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended; the parent has its ticks
		}
		p, err := parseProcess(string(text))
		if err != nil {
			return 0, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, p)
	}
	return sumTree(os.Getpid(), all), nil
}

// processTicks is what a process has used, with the children for which it has waited.
type processTicks struct {
	pid, parent int
	used        uint64
}

// parseProcess reads /proc/PID/stat. The name of the program is in brackets, and may have blanks and brackets itself.
func parseProcess(stat string) (p processTicks, err error) {
	begin, end := strings.IndexByte(stat, '('), strings.LastIndexByte(stat, ')')
	if begin < 1 || end < begin {
		return p, fmt.Errorf("no name in %q", stat)
	}
	words := strings.Fields(stat[end+1:]) // from the state on, the third word of the file
	if len(words) < 15 {
		return p, fmt.Errorf("too short: %q", stat)
	}
	if p.pid, err = strconv.Atoi(strings.TrimSpace(stat[:begin])); err != nil {
		return p, err
	}
	if p.parent, err = strconv.Atoi(words[1]); err != nil {
		return p, err
	}
	for _, word := range words[11:15] { // utime, stime, cutime, cstime
		n, err := strconv.ParseUint(word, 10, 64)
		if err != nil {
			return p, err
		}
		p.used += n
	}
	return p, nil
}

// sumTree sums what a process and its descendants have used.
func sumTree(root int, all []processTicks) (sum uint64) {
	children := map[int][]processTicks{}
	for _, p := range all {
		children[p.parent] = append(children[p.parent], p)
		if p.pid == root {
			sum += p.used
		}
	}
	for next := []int{root}; len(next) > 0; {
		of := children[next[0]]
		next = next[1:]
		for _, p := range of {
			sum += p.used
			next = append(next, p.pid)
		}
	}
	return sum
}

// formatShare writes a share of the processors as people read it.
func formatShare(share float64) string { return fmt.Sprintf("%.0f%%", 100*share) }

// formatBound rounds a figure for a report.
func formatBound(d time.Duration) time.Duration {
	if d < 10*time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(100 * time.Millisecond)
}
