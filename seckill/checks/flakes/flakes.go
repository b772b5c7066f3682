// Command flakes runs tests again and again where they have it hard: in random order, with few and with many
// processors, beside as many busy loops as the machine has processors. It prints the tests that failed, the most often
// failing first, each with the command that repeats the last failure.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == busyArgument {
		busy(os.Stdin)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithCancelCause(ctx)
	go func() { // a signal that ends make or go run does not reach what they run
		for parent := os.Getppid(); os.Getppid() == parent; {
			time.Sleep(time.Second)
		}
		cancel(errors.New("the process that started this one has ended"))
	}()
	code := command(ctx, os.Args[1:], os.Stdout)
	stop()
	os.Exit(code)
}

// options say what is run, and how often.
type options struct {
	n         int
	whole     bool
	pkgs      []string
	run, skip string
	procs     []string
	busy      int
	seed      uint64
	limit     time.Duration
	dir       string // for the outputs of failures
}

// command runs what the arguments say, and returns the exit code: 1 if a test failed.
func command(ctx context.Context, args []string, out io.Writer) int {
	o, err := parse(args, out)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(out, "flakes:", err)
		return 2
	}
	loops, err := startLoops(o.busy)
	defer loops.end()
	if err != nil {
		fmt.Fprintln(out, "flakes:", err)
		return 2
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.limit, fmt.Errorf("%v are over", o.limit))
	defer cancel()
	results := newResults(o.dir)
	if err := o.rounds(ctx, results, out); err != nil {
		fmt.Fprintln(out, "flakes:", err)
		return 2
	}
	results.print(out)
	if len(results.failed()) > 0 {
		return 1
	}
	return 0
}

func parse(args []string, out io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("flakes", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.IntVar(&o.n, "n", 20, "how often each test runs")
	flags.BoolVar(&o.whole, "whole", false,
		"in n runs of all packages, as make test does it, instead of one run for each of procs")
	pkgs := flags.String("pkgs", "./...", "packages")
	flags.StringVar(&o.run, "run", "", "only these tests, as go test -run")
	flags.StringVar(&o.skip, "skip", "", "without these tests, as go test -skip")
	procs := flags.String("procs", "1,2,8", "values of GOMAXPROCS, in turn")
	flags.IntVar(&o.busy, "busy", runtime.NumCPU(), "how many busy loops run beside the tests")
	flags.Uint64Var(&o.seed, "seed", 0, "the seed of the first order of the tests; 0 draws one")
	minutes := flags.Float64("minutes", 60, "stop after this time")
	flags.StringVar(&o.dir, "dir", "", "the folder for the outputs of failures (default a new one)")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.pkgs, o.procs = strings.Fields(*pkgs), strings.Split(*procs, ",")
	o.limit = time.Duration(*minutes * float64(time.Minute))
	for _, p := range o.procs {
		if n, err := strconv.Atoi(p); err != nil || n < 1 {
			return o, fmt.Errorf("--procs: %q is no number of processors", p)
		}
	}
	if o.n < 1 || o.limit <= 0 || len(o.pkgs) == 0 || flags.NArg() > 0 {
		return o, errors.New("n, minutes and pkgs must say something, and there are no other arguments")
	}
	if o.seed == 0 {
		o.seed = rand.Uint64N(1 << 31)
	}
	if o.dir == "" {
		o.dir, err = os.MkdirTemp("", "flakes-")
	}
	return o, err
}

// rounds runs go test once for each value of GOMAXPROCS, or for a whole run n times, until all are done or ctx ends.
func (o options) rounds(ctx context.Context, results *results, out io.Writer) error {
	counts := make([]int, len(o.procs)) // how often each test runs in a round
	if o.whole {
		counts = make([]int, o.n)
	}
	for i := range o.n {
		counts[i%len(counts)]++
	}
	for i, count := range counts {
		if count == 0 || ctx.Err() != nil {
			break
		}
		r := round{procs: o.procs[i%len(o.procs)], count: count, seed: o.seed + uint64(i), run: o.run, skip: o.skip}
		fmt.Fprintf(out, "round %d of %d: %s\n", i+1, len(counts), r.command(o.pkgs...))
		began := time.Now()
		failures, processor, err := r.test(ctx, o.pkgs, results)
		fmt.Fprintf(out, "  %d failures, %.2f min, %.2f processor min\n", failures, time.Since(began).Minutes(),
			processor.Minutes())
		if err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		fmt.Fprintf(out, "stopped: %v\n", context.Cause(ctx))
		for _, t := range results.running() {
			fmt.Fprintf(out, "  while %s %s ran\n", t.pkg, t.test)
		}
	}
	return nil
}

// round is one run of go test.
type round struct {
	procs     string
	count     int
	seed      uint64
	run, skip string
}

// arguments returns those of go for some packages.
func (r round) arguments(pkgs ...string) []string {
	args := []string{"test", "-count", strconv.Itoa(r.count), "-shuffle", strconv.FormatUint(r.seed, 10)}
	if r.run != "" {
		args = append(args, "-run", r.run)
	}
	if r.skip != "" {
		args = append(args, "-skip", r.skip)
	}
	return append(args, pkgs...)
}

// command returns what a person types to repeat the round in some packages.
func (r round) command(pkgs ...string) string {
	var words []string
	for _, a := range r.arguments(pkgs...) {
		if strings.ContainsAny(a, " \t\"'\\$&|;<>()[]{}*?^~#!`") {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		words = append(words, a)
	}
	return "GOMAXPROCS=" + r.procs + " go " + strings.Join(words, " ")
}

// test runs the round. It returns how many tests failed, and how much time all processors spent. When ctx ends, so does
// the round, and the tests that it interrupts count for nothing.
func (r round) test(
	ctx context.Context, pkgs []string, results *results,
) (failures int, processor time.Duration, err error) {
	// GOMAXPROCS would also decide how many packages run at a time.
	args := append([]string{"test", "-json", "-vet=off", "-p", strconv.Itoa(runtime.NumCPU()), "-timeout",
		(time.Duration(r.count) * 20 * time.Minute).String()}, r.arguments(pkgs...)[1:]...)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), "GOMAXPROCS="+r.procs)
	cmd.Stderr = os.Stderr
	kill := group(cmd)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, 0, err
	}
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadBytes('\n')
		if ctx.Err() == nil && len(line) > 0 {
			failed, err := results.read(line, r)
			if err != nil {
				kill()
				cmd.Wait()
				return failures, 0, err
			}
			failures += failed
		}
		if err != nil {
			break
		}
	}
	err = cmd.Wait()
	if state := cmd.ProcessState; state != nil {
		processor = state.UserTime() + state.SystemTime()
	}
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		if err = nil; failures == 0 && ctx.Err() == nil {
			err = fmt.Errorf("go test failed and no test did: %w", exit)
		}
	}
	if ctx.Err() != nil {
		kill()
		err = nil
	}
	return failures, processor, err
}
