//go:build faults

package failpoint

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// point is an armed failpoint.
type point struct {
	action  string
	sleep   time.Duration
	from    int64 // first pass on which it acts
	times   int64 // limit of actions
	percent float64
	passed  atomic.Int64
	acted   atomic.Int64
}

var all = []string{BeforeReserve, AfterReserve, BeforeBegin, BeforeCommit, BeforeAck, AfterAck, AfterExpire,
	BeforeCaptureCommit,
	BeforeInstallCommit, BeforePublish, BeforeDrain}

var armed = arm(os.Getenv("MIAOSHA_FAILPOINTS"))

var form = regexp.MustCompile(`^([A-Za-z]+)=(kill|stop|sleep|error|drop)(?::([0-9a-z.]+))?(?:@([0-9]{1,9}))?(?:\*([0-9]{1,9}))?(?:%([0-9.]+))?$`)

// arm reads the setting. A wrong setting ends the process: a fault that is not injected would prove
// nothing.
func arm(setting string) map[string]*point {
	points := map[string]*point{}
	for one := range strings.SplitSeq(setting, ";") {
		if one = strings.TrimSpace(one); one == "" {
			continue
		}
		m := form.FindStringSubmatch(one)
		if m == nil || (m[2] == "sleep") != (m[3] != "") || !slices.Contains(all, m[1]) {
			panic(fmt.Sprintf("MIAOSHA_FAILPOINTS: %q", one))
		}
		p := &point{action: m[2], from: number(m[4], 1), times: number(m[5], 1<<62), percent: 100}
		var errs [2]error
		if m[3] != "" {
			p.sleep, errs[0] = time.ParseDuration(m[3])
		}
		if m[6] != "" {
			p.percent, errs[1] = strconv.ParseFloat(m[6], 64)
		}
		if err := errors.Join(errs[:]...); err != nil {
			panic(fmt.Sprintf("MIAOSHA_FAILPOINTS: %q: %v", one, err))
		}
		points[m[1]] = p
	}
	return points
}

func number(text string, otherwise int64) int64 {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	return otherwise
}

// Hit passes a point. It returns nil, ErrInjected or ErrDrop.
func Hit(name string) error {
	p := armed[name]
	if p == nil || p.passed.Add(1) < p.from || p.percent < 100 && rand.Float64()*100 >= p.percent ||
		p.acted.Add(1) > p.times {
		return nil
	}
	fmt.Fprintf(os.Stderr, "failpoint %s: %s\n", name, p.action)
	switch p.action {
	case "kill":
		self, _ := os.FindProcess(os.Getpid())
		self.Kill()
		select {} // nothing more happens here
	case "stop":
		self, _ := os.FindProcess(os.Getpid())
		self.Signal(syscall.Signal(0x13)) // SIGSTOP of Linux
		return nil
	case "sleep":
		time.Sleep(p.sleep)
		return nil
	case "drop":
		return ErrDrop
	}
	return ErrInjected
}
