package sandbox

import (
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"
)

// stopLimit is how long a server may take for each step that stops it.
const stopLimit = 10 * time.Second

// program says how to run a server and how to end it.
type program struct {
	name        string
	command     func() *exec.Cmd          // returns a new one for every start
	account     account                   // runs it
	serversLock *os.File                  // the lock that it holds too
	stopSteps   []func(*os.Process) error // tried in turn, the gentle one first; Kill is the last resort
	deathSignal os.Signal                 // Linux sends it when our process dies
	output      *os.File                  // receives its messages; the child closes it
	log         *slog.Logger
}

// child is a running program. One goroutine with a thread of its own starts it, waits for it, and
// restarts it if it ends unexpectedly. close stops the program and waits for that goroutine.
type child struct {
	program
	done chan struct{} // closed when the goroutine has ended, and the program with it
	quit chan struct{} // closed by close

	mu      sync.Mutex
	process *os.Process // the one running, or the last
	restart bool        // start it again if it ends; set once it has answered
	closing bool
}

// launch starts a program. It is not started again before keep is called.
func launch(p program) (*child, error) {
	c := &child{program: p, done: make(chan struct{}), quit: make(chan struct{})}
	started := make(chan error, 1)
	go c.run(started)
	if err := <-started; err != nil {
		<-c.done
		return nil, err
	}
	return c, nil
}

// keep makes the child restart the program whenever it ends unexpectedly, on the same address.
func (c *child) keep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.restart = true
}

func (c *child) run(started chan<- error) {
	// Linux ends the child when the thread that made it ends, not when the process ends. So this
	// goroutine keeps its thread. It is in Wait for as long as the child lives. The thread is never
	// unlocked and ends with the goroutine.
	runtime.LockOSThread()
	defer close(c.done)
	defer c.output.Close()
	wait := 100 * time.Millisecond
	for first := true; ; first = false {
		began := time.Now()
		cmd := c.command()
		err := c.start(cmd)
		if first {
			started <- err
		}
		if err == nil {
			err = cmd.Wait()
		} else if first {
			return
		}
		c.mu.Lock()
		again := c.restart && !c.closing
		c.mu.Unlock()
		if !again {
			return
		}
		if time.Since(began) > time.Minute {
			wait = 100 * time.Millisecond
		}
		c.log.Warn("a server of the sandbox ended unexpectedly and is restarted", "server", c.name, "error",
			err, "in", wait)
		select {
		case <-c.quit:
			return
		case <-time.After(wait):
		}
		wait = min(2*wait, 5*time.Second)
	}
}

// start starts one process, unless the child is closing.
func (c *child) start(cmd *exec.Cmd) error {
	prepare(cmd, c.program)
	cmd.Stdout, cmd.Stderr = c.output, c.output
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return errors.New("stopped")
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	c.process = cmd.Process
	if err := addToJob(cmd.Process); err != nil {
		return errors.Join(err, cmd.Process.Kill(), cmd.Wait())
	}
	return nil
}

// pid returns the id of the process that runs, or ran last; 0 for no child.
func (c *child) pid() int {
	if c == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.process.Pid
}

// close stops the program and waits for its end. It tries each stop step in turn, then kills it.
func (c *child) close() {
	c.mu.Lock()
	if !c.closing {
		c.closing = true
		close(c.quit)
	}
	process := c.process
	c.mu.Unlock()
	for i, stop := range c.stopSteps {
		if i > 0 {
			c.log.Warn("a server of the sandbox does not stop; trying the next step", "server", c.name)
		}
		// A program that has ended, or waits for its next start, cannot be signalled. Then the
		// goroutine is about to end.
		if err := stop(process); err != nil && !errors.Is(err, os.ErrProcessDone) {
			continue
		}
		select {
		case <-c.done:
			return
		case <-time.After(stopLimit):
		}
	}
	process.Kill()
	<-c.done
}
