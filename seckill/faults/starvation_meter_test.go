//go:build faults && linux

package faults

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"miaosha/seckill/sandbox/sandboxtest"
)

func TestTheShareOfOthers(t *testing.T) {
	for _, c := range []struct {
		name string
		to   cpuUse
		want float64
	}{
		{"nobody worked", cpuUse{all: 1000}, 0},
		{"the suite alone", cpuUse{all: 1000, busy: 1000, tree: 1000}, 0},
		{"others alone", cpuUse{all: 1000, busy: 500}, 0.5},
		{"both", cpuUse{all: 1000, busy: 900, tree: 600}, 0.3},
		{"more than was measured", cpuUse{all: 1000, busy: 300, tree: 400}, 0},
		{"no time", cpuUse{}, 0},
	} {
		from := cpuUse{all: 70, busy: 50, tree: 30}
		c.to.all, c.to.busy, c.to.tree = c.to.all+from.all, c.to.busy+from.busy, c.to.tree+from.tree
		if got := from.outside(c.to); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestProcessorsAreRead(t *testing.T) {
	// Two processors: 100 + 20 + 300 in processes, 4000 + 50 idle, 6 + 7 in interrupts, 80 stolen. Guests are in user
	// already.
	all, busy, err := parseProcessors("cpu  100 20 300 4000 50 6 7 80 30 2\ncpu0 50 10 150 2000 25 3 3 40 15 1\n")
	if err != nil || all != 4563 || busy != 500 {
		t.Errorf("%d ticks, %d of them busy, %v; want 4563, 500", all, busy, err)
	}
	for _, wrong := range []string{"", "cpu 1 2 3", "intr 1 2 3 4 5 6 7 8", "cpu 1 2 x 4 5 6 7 8"} {
		if _, _, err := parseProcessors(wrong); err == nil {
			t.Errorf("%q was read", wrong)
		}
	}
}

func TestTheTreeIsSummed(t *testing.T) {
	line := func(pid, parent int, name string, ticks string) string {
		return strconv.Itoa(pid) + " (" + name + ") S " + strconv.Itoa(parent) + " 1 1 0 -1 4194560 11 22 33 44 " + ticks + " 20 0 1 0 12345 1000 200"
	}
	var all []processTicks
	for _, text := range []string{
		line(1, 0, "init", "1000 1000 1000 1000"),
		line(40, 30, "a child of a child", "1 2 0 0"), // its pid may be below that of its parent
		line(50, 1, "the suite", "10 20 300 400"),
		line(30, 50, "nginx: (worker) 7 7", "3 4 50 60"),
		line(60, 1, "another", "500 500 500 500"),
		line(70, 60, "of another", "500 500 500 500"),
	} {
		p, err := parseProcess(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	if sum := sumTree(50, all); sum != 730+117+3 {
		t.Errorf("the tree has used %d ticks, want %d", sum, 730+117+3)
	}
	for _, wrong := range []string{"", "1 name S 2", "1 (name) S 2 3", "x (name) S 2" + strings.Repeat(" 1", 20), "1 (name) S 2" + strings.Repeat(" x", 20)} {
		if _, err := parseProcess(wrong); err == nil {
			t.Errorf("%q was read", wrong)
		}
	}
}

// loop keeps a processor busy, and ends after a while if the suite does not end it.
const loop = `i=0; while [ $i -lt 300000000 ]; do i=$((i + 1)); done`

// What a child burns is the suite's own, even if its parent has ended: an orphan, and one that has been waited for.
func TestTheMeterTellsOwnFromOthers(t *testing.T) {
	const enough = 60 // ticks; a loop has them after 0.6 s, and later on a busy machine
	ownTree := func() uint64 {
		ticks, err := treeTicks()
		if err != nil {
			t.Fatal(err)
		}
		return ticks
	}
	ticksOf := func(pid int) uint64 {
		text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil {
			t.Fatal(err)
		}
		p, err := parseProcess(string(text))
		if err != nil {
			t.Fatal(err)
		}
		return p.used
	}
	// orphan starts a loop in a session of its own, and its parent ends at once. It returns the loop's pid.
	orphan := func() int {
		out, err := exec.Command("sh", "-c", `setsid sh -c '`+loop+`' >/dev/null 2>&1 & echo $!`).Output()
		if err != nil {
			t.Fatal(err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
		if err != nil {
			t.Fatal(err)
		}
		return pid
	}
	end := func(pid int) {
		syscall.Kill(pid, syscall.SIGKILL)
		syscall.Wait4(pid, nil, 0, nil) // an orphan of ours; of another's orphan there is nothing to wait for
	}

	t.Run("a child", func(t *testing.T) {
		before := ownTree()
		cmd := exec.Command("sh", "-c", loop)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		sandboxtest.Until(t, "the child works", func() bool { return ticksOf(cmd.Process.Pid) >= enough })
		cmd.Process.Kill()
		cmd.Wait()
		if used := ownTree() - before; used < enough {
			t.Errorf("a child has burnt %d ticks, and the tree has %d more", enough, used)
		}
	})
	t.Run("an orphan", func(t *testing.T) {
		before := ownTree()
		pid := orphan()
		sandboxtest.Until(t, "the orphan works", func() bool { return ticksOf(pid) >= enough })
		end(pid)
		if used := ownTree() - before; used < enough {
			t.Errorf("an orphan has burnt %d ticks, and the tree has %d more", enough, used)
		}
	})
	t.Run("another", func(t *testing.T) {
		if err := ownOrphans(false); err != nil {
			t.Fatal(err)
		}
		m, err := startMeter()
		if err != nil {
			t.Fatal(err)
		}
		before := ownTree()
		pid := orphan()
		if err := ownOrphans(true); err != nil {
			t.Fatal(err)
		}
		defer end(pid)
		sandboxtest.Until(t, "the other works", func() bool { return ticksOf(pid) >= enough })
		share, err := m.outside()
		if err != nil {
			t.Fatal(err)
		}
		burnt := float64(ticksOf(pid))
		if own := float64(ownTree() - before); own > burnt/2 {
			t.Errorf("another process has burnt %v ticks, and the tree has %v more", burnt, own)
		}
		all, _, _ := processorTicks()
		if least := enough / 2 / float64(all-m.from.all); share < least {
			t.Errorf("another process has burnt %d ticks of %d, and others had %s of the processors", enough, all-m.from.all, formatShare(share))
		}
	})
}
