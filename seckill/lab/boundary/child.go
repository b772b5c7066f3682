package boundary

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	glua "github.com/yuin/gopher-lua"

	"miaosha/seckill/lab"
	"miaosha/seckill/lab/program"
	"miaosha/seckill/lab/schedules"
	"miaosha/seckill/lab/throwaway"
)

const (
	childMemory   = 512 << 20 // bytes that a child may have
	exitMemory    = 77        // its exit code if it wants more
	exitProcessor = 78        // its exit code if it has used its time of the processor
	maxOutput     = 4 << 10   // bytes that a program may print
)

// RunChild does the work of a child process, which is the wrapper of a Postgres or runs a program. That one reads a job
// from standard input, writes news to standard output, and ends the process when it is done, when standard input ends,
// or when the program wants too much memory.
func RunChild() {
	if os.Getenv(Child) == serverChild {
		throwaway.Run()
	}
	news := os.Stdout // nothing else in this process may write to the parent
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		os.Exit(2)
	}
	os.Stdout = null
	limitMemory(childMemory)
	debug.SetMemoryLimit(childMemory * 3 / 4)
	go watchMemory()
	in := bufio.NewReader(os.Stdin)
	line, err := in.ReadBytes('\n')
	var job childJob
	if err == nil {
		err = json.Unmarshal(line, &job)
	}
	if err != nil {
		os.Exit(2)
	}
	limitProcessor(job.Processor)
	go func() {
		_, _ = io.Copy(io.Discard, in)
		os.Exit(3) // the parent is gone
	}()
	var mu sync.Mutex
	encoder := json.NewEncoder(news)
	tell := func(line childNews) {
		mu.Lock()
		defer mu.Unlock()
		_ = encoder.Encode(line)
	}
	if problem := job.run(program.WithLimits(context.Background(), job.Limits), tell); problem != nil {
		tell(childNews{Problem: problem})
	}
	os.Exit(0)
}

// watchMemory ends the process when it has more memory than it may. Where the system has a limit it comes first for one
// large piece.
func watchMemory() {
	used := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	for range time.Tick(20 * time.Millisecond) {
		metrics.Read(used)
		if used[0].Value.Uint64()+used[1].Value.Uint64() > childMemory {
			os.Exit(exitMemory)
		}
	}
}

// run judges the program under each plan.
func (j childJob) run(ctx context.Context, tell func(childNews)) *childProblem {
	slow := time.AfterFunc(j.Limits.Compile, func() { // a source can be made so that the compiler takes minutes
		tell(childNews{Problem: &childProblem{lab.Endless,
			fmt.Sprintf("the source is not compiled within %v", j.Limits.Compile)}})
		os.Exit(0)
	})
	code, err := program.Compile(j.Program)
	slow.Stop()
	if err != nil {
		return &childProblem{lab.BadSyntax, err.Error()}
	}
	server := miniredis.NewMiniRedis()
	word := rand.Text() // whoever else is on this machine finds the port
	server.RequireAuth(word)
	if err := server.StartAddr("127.0.0.1:0"); err != nil {
		return &childProblem{lab.BadDatabase, err.Error()}
	}
	defer server.Close()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), Password: word, Protocol: 2, DisableIdentity: true})
	defer rdb.Close()
	stores := lab.Stores{DatabaseURL: j.DatabaseURL, JudgeURL: j.JudgeURL, Redis: rdb}
	for _, hidden := range j.Plans {
		plan := hidden.plan()
		stuck := func(problem, text string) {
			tell(childNews{Problem: &childProblem{problem, text}})
			os.Exit(0)
		}
		result, err := judgePlan(ctx, stores, server, code, plan, stuck,
			func(now lab.Progress) { tell(childNews{Progress: &now}) })
		if err != nil {
			if wrong := (program.Error{}); errors.As(err, &wrong) {
				return &childProblem{lab.BadRuntime, wrong.Text}
			}
			if endless := (lab.EndlessError{}); errors.As(err, &endless) {
				return &childProblem{lab.Endless, endless.Text}
			}
			if lab.IsEnded(err) { // the machine is too busy: the parent says so, and nothing of the program
				fmt.Fprintln(os.Stderr, lab.OneLine(err.Error()))
				os.Exit(1)
			}
			return &childProblem{lab.BadDatabase, lab.OneLine(err.Error())}
		}
		tell(childNews{Result: &result})
	}
	return nil
}

// judgePlan searches a schedule that shows a fault, and then sends the crowd.
func judgePlan(ctx context.Context, s lab.Stores, server *miniredis.Miniredis, code *glua.FunctionProto, p lab.Plan,
	stuck func(problem, text string),
	report func(lab.Progress)) (lab.Result, error) {
	p.Strategies = []string{lab.Student}
	if p.Nodes == 0 {
		p.Nodes = 2
	}
	out := &output{}
	var found *schedules.Found
	if !p.CrowdOnly {
		var err error
		if found, err = schedules.Search(ctx, s, server, code, p, out.write, stuck); err != nil {
			return lab.Result{}, err
		}
	}
	verdict := &lab.Verdict{Steps: []lab.ScheduleStep{}}
	if found != nil {
		verdict.Kind, verdict.Problem = found.Kind, found.Problem
		verdict.Schedule, verdict.Steps = found.Schedule, found.Steps
	}
	if verdict.Kind == lab.Failed {
		r := failedResult(p, verdict.Problem, found.Text)
		r.Verdict = verdict
		verdict.Output = out.String()
		return r, nil
	}
	server.FlushAll()
	ticking, stop := context.WithCancel(ctx)
	var clock sync.WaitGroup
	clock.Go(func() { // keys expire: the clock of this Redis does not move by itself
		last := time.Now()
		for lab.Pause(ticking, 2*time.Millisecond); ticking.Err() == nil; lab.Pause(ticking, 2*time.Millisecond) {
			now := time.Now()
			server.FastForward(now.Sub(last))
			last = now
		}
	})
	shared := &run{code: code, print: out.write}
	spec := &lab.Spec{Name: lab.Student, Store: "both",
		Open: func(n *lab.Node) lab.Strategy { return newProcess(n, shared) }}
	result, err := lab.Run(ctx, s, p, spec, report)
	stop()
	clock.Wait()
	if err != nil {
		return result, err
	}
	if gone := lengthOf(&shared.cancelled); gone > 0 {
		result.Unsold = max(0, min(p.Stock, p.Buyers-gone)-(result.Sold-shared.kept(p, result.OrderedBy)))
		result.Right = result.Exact()
	}
	verdict.AfterEnd, verdict.Late, verdict.Unpriced = result.TakenLate, shared.late(result.OrderedBy,
		p.Stock), shared.unpriced(result.OrderedBy)
	verdict.Seatless = result.Unseated
	if result.Tampered {
		verdict.Kind = lab.Tampered
	}
	if verdict.Kind == "" {
		verdict.Kind = kindOfCounts(result)
	}
	result.Error = lab.OneLine(result.Error)
	if verdict.Kind == lab.Failed {
		verdict.Problem = lab.BadRuntime
		if strings.Contains(result.Error, context.DeadlineExceeded.Error()) {
			verdict.Problem = lab.Endless
		}
	}
	result.Right = result.Right && verdict.Kind == ""
	verdict.Output = out.String()
	result.Verdict = verdict
	return result, nil
}

func lengthOf(m *sync.Map) (n int) {
	m.Range(func(any, any) bool { n++; return true })
	return n
}

// kindOfCounts names the kind of a crowd's outcome for which no schedule was found.
func kindOfCounts(r lab.Result) string {
	switch {
	case r.Error != "":
		return lab.Failed
	case r.Lost > 0:
		return lab.LostPromise
	case r.Duplicates > 0:
		return lab.DoubleDelivery
	case r.Oversold > 0, r.TakenLate > 0:
		return lab.CheckThenAct
	case r.Denied > 0:
		return lab.DeniedOrder
	case r.Unsold > 0:
		return lab.StaysUnsold
	}
	return ""
}

// output keeps the first bytes that a program prints.
type output struct {
	mu   sync.Mutex
	text strings.Builder
}

func (o *output) write(text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if room := maxOutput - o.text.Len(); room > 0 {
		o.text.WriteString(strings.ToValidUTF8(text[:min(room, len(text))], ""))
	}
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
