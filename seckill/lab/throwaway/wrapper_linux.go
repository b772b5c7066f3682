package throwaway

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sys/unix"
)

const (
	supported = true

	folderPrefix = "miaosha-lab-"
	folderLock   = "lock" // held by the wrapper
	longestBase  = 70     // bytes: the path of a socket is at most 107 bytes long

	lookEvery   = 50 * time.Millisecond
	ownData     = 256 << 20 // bytes of data that this process may need while it has the limits of what it starts
	quitLimit   = 2 * time.Second
	killLimit   = 15 * time.Second
	reapPause   = time.Millisecond
	closedStdin = "closed" // the server is no longer wanted

	stillStarting = "57P03" // the code of the refusal
)

// ownGroup keeps Ctrl-C from the wrapper: this process ends it in order.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// prepare lets the account run a command in a session of its own, which gets SIGQUIT when the wrapper dies: the
// immediate shutdown of Postgres.
func (p Programs) prepare(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGQUIT}
	if p.Account {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: p.UID, Gid: p.GID}
	}
	cmd.Env = []string{"LC_ALL=C"}
	for _, name := range []string{"PATH", "LD_LIBRARY_PATH"} {
		if value, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
}

// wrapper runs a server.
type wrapper struct {
	job
	folder string
	lock   *os.File
	main   int           // the process id of Postgres
	gone   bool          // Postgres itself has ended
	before time.Duration // what making its cluster took, which is no work of a statement
	said   *lastBytes    // of Postgres
	polite map[int]bool  // processes whose session is as nice as this one
}

// Run runs a server in this process, the wrapper, and ends the process. It reads a job from standard input and writes
// news to standard output. It ends when standard input ends: at Close, and when the process dies that started this one.
func Run() {
	runtime.LockOSThread() // Linux sends the signal of prepare when the thread ends that has started a process
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGPIPE)
	in := bufio.NewReader(os.Stdin)
	line, err := in.ReadBytes('\n')
	w := &wrapper{polite: map[int]bool{}}
	if err == nil {
		err = json.Unmarshal(line, &w.job)
	}
	if err != nil {
		os.Exit(2)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	tell := json.NewEncoder(os.Stdout)
	ended, text := Crashed, ""
	if err := seesChildren(); err != nil {
		ended, text = none, err.Error()
	} else if err := w.start(ctx); ctx.Err() != nil {
		ended = closedStdin
	} else if err != nil {
		text = err.Error()
	} else {
		// not before: the start is no work of a program, and beside a busy machine it would take minutes
		w.beNice(descendants())
		_ = tell.Encode(news{Folder: w.folder})
		ended, text = w.watch(ctx)
	}
	last := used(descendants()) - w.before
	if err := w.end(); err != nil {
		text = strings.TrimPrefix(text+"; "+err.Error(), "; ")
	}
	if ended == closedStdin {
		ended = ""
	}
	_ = tell.Encode(news{Ended: ended, Text: text, Used: Used{last}})
	os.Exit(0)
}

// start makes the folder and the cluster, and starts Postgres. What is started later inherits the limits.
func (w *wrapper) start(ctx context.Context) (err error) {
	if err = w.makeFolder(); err != nil {
		return err
	}
	// Backends leave the session of Postgres, and their parent may die before them: then they become children of this
	// process.
	if err = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return err
	}
	data := filepath.Join(w.folder, "data")
	copied, err := w.Programs.data(ctx, data)
	if err == nil {
		err = w.serve(ctx, data)
	}
	if err == nil || !copied || ctx.Err() != nil {
		return err
	}
	// The cluster that an earlier start has kept may be damaged.
	if err = errors.Join(w.endAll(), os.RemoveAll(w.Programs.kept()), os.RemoveAll(data)); err != nil {
		return err
	}
	w.main, w.gone = 0, false
	if _, err = w.Programs.data(ctx, data); err != nil {
		return err
	}
	return w.serve(ctx, data)
}

// serve starts Postgres and returns when it answers.
func (w *wrapper) serve(ctx context.Context, data string) error {
	cmd := exec.Command(filepath.Join(w.Programs.Bin, "postgres"), "-D", data, "-k", w.folder, "-p", port)
	w.said = &lastBytes{}
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", w.said, w.said
	w.Programs.prepare(cmd)
	w.before = used(nil)
	if err := w.limited(cmd.Start); err != nil {
		return err
	}
	w.main = cmd.Process.Pid
	for {
		c, err := pgx.Connect(ctx, urlIn(w.folder, Superuser))
		if err == nil {
			return c.Close(ctx)
		}
		if w.reap(); w.gone {
			return errors.New(w.said.lastLine())
		}
		if pg := new(pgconn.PgError); ctx.Err() != nil || errors.As(err, &pg) && pg.Code != stillStarting {
			return err
		}
		time.Sleep(reapPause)
	}
}

// limited calls start with limits, which what it starts inherits. They are those of one process: watch adds up. This
// process itself needs more. If the machine has no memory left, what it starts is ended, and not the shop.
func (w *wrapper) limited(start func() error) error {
	seconds := uint64(w.Limits.Processor/time.Second) + 1
	for resource, limit := range map[int]uint64{unix.RLIMIT_CPU: seconds, unix.RLIMIT_CORE: 0,
		unix.RLIMIT_DATA: uint64(w.Limits.Memory) + ownData, unix.RLIMIT_FSIZE: uint64(w.Limits.Folder)} {
		var was unix.Rlimit
		if err := unix.Getrlimit(resource, &was); err != nil {
			return err
		}
		if err := unix.Setrlimit(resource, &unix.Rlimit{Cur: min(limit, was.Max), Max: was.Max}); err != nil {
			return err
		}
		defer unix.Setrlimit(resource, &was)
	}
	const score = "/proc/self/oom_score_adj"
	if was, err := os.ReadFile(score); err == nil {
		_ = os.WriteFile(score, []byte("1000"), 0)
		defer func() { _ = os.WriteFile(score, was, 0) }()
	}
	return start()
}

// watch adds up until the server is no longer wanted, has ended or is at a limit.
func (w *wrapper) watch(ctx context.Context) (reason, text string) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for last := time.Duration(-1); ; {
		select {
		case <-ctx.Done():
			return closedStdin, ""
		case <-tick.C:
		}
		if w.reap(); w.gone {
			why := w.said.lastLine()
			if strings.Contains(why, "by signal 24") { // SIGXCPU: one process has used all, and this one came late
				return Processor, ""
			}
			return Crashed, why
		}
		running := descendants()
		w.beNice(running)
		now := used(running) - w.before
		if now == last { // nothing has been done, so nothing has grown
			continue
		}
		last = now
		bytes, files := sizeOf(w.folder)
		switch {
		case now > w.Limits.Processor:
			return Processor, ""
		case memoryOf(running) > w.Limits.Memory:
			return Memory, ""
		case bytes > w.Limits.Folder:
			return Folder, ""
		case files > w.Limits.Files:
			return Files, ""
		}
	}
}

// reap takes note of the processes that have ended, and reports whether any is left.
func (w *wrapper) reap() bool {
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return false
		case pid == 0:
			return true
		case pid == w.main:
			w.gone = true
		}
	}
}

// end ends all processes and removes the folder.
func (w *wrapper) end() error { return errors.Join(w.endAll(), w.removeFolder()) }

// endAll ends all processes. SIGQUIT ends Postgres and its backends in milliseconds, also one that looks for no
// interrupt. If SIGKILL were the first, the backends of a killed Postgres would run on.
func (w *wrapper) endAll() error {
	if w.main == 0 {
		return nil
	}
	segment := w.sharedSegment()
	if !w.gone {
		_ = unix.Kill(w.main, unix.SIGQUIT)
	}
	for began := time.Now(); w.reap() && !w.gone && time.Since(began) < quitLimit; {
		time.Sleep(reapPause)
	}
	for began := time.Now(); w.reap(); time.Sleep(reapPause) {
		for _, pid := range descendants() {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		if time.Since(began) > killLimit {
			return errors.New("a process does not end")
		}
	}
	if segment > 0 { // a killed Postgres leaves it
		_, _ = unix.SysvShmCtl(segment, unix.IPC_RMID, nil)
	}
	return nil
}

// sharedSegment returns the id of the segment of shared memory by which Postgres knows that it is alone; 0 if there is
// none.
func (w *wrapper) sharedSegment() (id int) {
	text, err := os.ReadFile(filepath.Join(w.folder, "data", "postmaster.pid"))
	if lines := strings.Split(string(text), "\n"); err == nil && len(lines) > 6 {
		var key int
		_, _ = fmt.Sscan(lines[6], &key, &id)
	}
	return id
}

// makeFolder makes a folder that the account of Postgres can reach, and removes those of wrappers that were killed.
func (w *wrapper) makeFolder() error {
	base, err := w.base()
	if err != nil {
		return err
	}
	w.sweep(base)
	for {
		if w.folder, err = os.MkdirTemp(base, folderPrefix); err != nil {
			return err
		}
		if err = w.Programs.own(w.folder); err != nil {
			return err
		}
		path := filepath.Join(w.folder, folderLock)
		if w.lock, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
			return err
		}
		if err = unix.Flock(int(w.lock.Fd()), unix.LOCK_EX); err != nil {
			return err
		}
		if _, err := os.Lstat(path); err == nil {
			return nil
		}
		w.lock.Close() // another wrapper has taken it for that of a dead one
	}
}

// base returns the folder for temporary files, or another one if the account cannot pass it or its path is too long.
func (w *wrapper) base() (string, error) {
	for _, dir := range []string{os.TempDir(), "/tmp", "/var/tmp"} {
		dir, err := filepath.EvalSymlinks(dir)
		if err == nil && len(dir) <= longestBase && (!w.Programs.Account || openToAll(dir)) &&
			unix.Access(dir, unix.W_OK) == nil {
			return dir, nil
		}
	}
	return "", errors.New("there is no folder for temporary files that Postgres can reach")
}

// openToAll reports whether every account may pass dir and all folders above it.
func openToAll(dir string) bool {
	for ; ; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm()&0o001 == 0 {
			return false
		}
		if dir == filepath.Dir(dir) {
			return true
		}
	}
}

// sweep removes the folders of dead wrappers.
func (w *wrapper) sweep(base string) {
	left, _ := filepath.Glob(filepath.Join(base, folderPrefix+"*"))
	for _, dir := range left {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() {
			continue
		}
		if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != os.Geteuid() &&
			!(w.Programs.Account && st.Uid == w.Programs.UID) {
			continue
		}
		lock, err := os.OpenFile(filepath.Join(dir, folderLock), os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
		if err != nil {
			continue
		}
		if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			_ = os.RemoveAll(dir)
		}
		lock.Close()
	}
}

func (w *wrapper) removeFolder() error {
	if w.folder == "" {
		return nil
	}
	return os.RemoveAll(w.folder)
}

// ours reports whether path is a folder that only our account can write to.
func ours(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() || info.Mode().Perm()&0o022 != 0 {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}
