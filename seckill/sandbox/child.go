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

// stopLimit is how long a server may take over each of the ways to stop it.
const stopLimit = 10 * time.Second

// program says how to run a server and how to end it.
type program struct {
	name    string
	command func() *exec.Cmd          // a fresh one for every start
	as      account                   // whose rights it has
	bond    *os.File                  // the lock it holds with us
	stops   []func(*os.Process) error // ways to stop it, the gentle one first; the last resort is Kill
	dies    os.Signal                 // what Linux sends it when we die
	output  *os.File                  // gets what it says; closed by the child
	log     *slog.Logger
}

// child is a running program. One goroutine, on a thread of its own, starts it, waits for it, and starts it again if it
// ends unasked; close stops the program and waits for that goroutine.
type child struct {
	program
	done chan struct{} // closed when the goroutine has ended, and the program with it
	quit chan struct{} // closed when it is to stop

	mu      sync.Mutex
	process *os.Process // the one running, or the last
	settled bool        // it has answered once: from now on it is kept up
	closing bool
}

// launch starts a program. It is not kept up, nor known to be of use, before keep is called.
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

// keep has the program started again whenever it ends by itself, on the same address.
func (c *child) keep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settled = true
}

func (c *child) run(started chan<- error) {
	// Linux ends the child when the thread that made it ends, not the process. So the thread stays with this goroutine,
	// which is in Wait for as long as the child lives; it is never unlocked and ends with it.
	runtime.LockOSThread()
	defer close(c.done)
	defer c.output.Close()
	wait := 100 * time.Millisecond
	for first := true; ; first = false {
		begun := time.Now()
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
		again := c.settled && !c.closing
		c.mu.Unlock()
		if !again {
			return
		}
		if time.Since(begun) > time.Minute {
			wait = 100 * time.Millisecond
		}
		c.log.Warn("a server of the sandbox ended by itself and is started again", "server", c.name, "error", err, "in", wait)
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
	if err := adopt(cmd.Process); err != nil {
		return errors.Join(err, cmd.Process.Kill(), cmd.Wait())
	}
	return nil
}

// close stops the program and waits for its end: each way in turn, then by force.
func (c *child) close() {
	c.mu.Lock()
	if !c.closing {
		c.closing = true
		close(c.quit)
	}
	process := c.process
	c.mu.Unlock()
	for i, stop := range c.stops {
		if i > 0 {
			c.log.Warn("a server of the sandbox doesn't stop; trying harder", "server", c.name)
		}
		// One that has ended already, or is waiting to be started again, can't be told; then the goroutine is about to end.
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
