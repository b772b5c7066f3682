package outside

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"miaosha/seckill/sandbox/sandboxtest"
)

// TestMain is also the shop of the tests: this binary with SHOP in its environment.
func TestMain(m *testing.M) {
	if kind, ok := os.LookupEnv("SHOP"); ok {
		shop(kind)
	}
	os.Setenv("MIAOSHA_SECRET", "of this shop")
	os.Setenv("SESSION_REDIS_URL", "redis://of.this.shop")
	sandboxtest.Main(m)
}

func shop(kind string) {
	fmt.Println("a shop that is", kind)
	if kind == "broken" {
		for i := range 30 {
			fmt.Println("line", i)
		}
		fmt.Print("no such class")
		os.Exit(3)
	}
	http.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) {
		switch kind {
		case "never ready":
			w.WriteHeader(http.StatusServiceUnavailable)
		case "slowly ready":
			time.Sleep(1500 * time.Millisecond) //timing: a program that is slow to start
		}
	})
	http.HandleFunc("POST /buy", func(w http.ResponseWriter, r *http.Request) {
		switch user, _ := strconv.Atoi(r.FormValue("user")); user {
		case 1:
		case 2:
			w.WriteHeader(http.StatusConflict)
		case 3:
			fmt.Println("user 3:", os.Getenv("MIAOSHA_SECRET")+os.Getenv("SESSION_REDIS_URL"), os.Getenv("DATABASE_URL"))
			w.WriteHeader(http.StatusInternalServerError)
		default:
			os.Exit(4)
		}
	})
	http.HandleFunc("POST /end", func(w http.ResponseWriter, _ *http.Request) {
		switch kind {
		case "rude":
			os.Exit(0)
		case "without an end":
			w.WriteHeader(http.StatusNotFound)
		}
		fmt.Println("ended")
	})
	err := http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), nil)
	fmt.Println(err)
	os.Exit(1)
}

// open returns a shop of a kind, and what its processes print.
func open(t *testing.T, kind string) (*Shop, *sandboxtest.SyncBuffer) {
	t.Helper()
	output := &sandboxtest.SyncBuffer{}
	s := New("SHOP='"+kind+"' '"+os.Args[0]+"'", output)
	s.readyLimit = sandboxtest.Hang
	return s, output
}

func start(t *testing.T, s *Shop) *Process {
	t.Helper()
	p, err := s.Start(t.Context(), []string{"DATABASE_URL=postgres://lab"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

// A program may answer GET /ready late, when it has done its work: it is not asked again meanwhile and given up.
func TestReadyMayTakeLong(t *testing.T) {
	t.Parallel()
	s, _ := open(t, "slowly ready")
	start(t, s)
}

// Replies are yes, no, or none. What a process prints is passed on, and it does not see the settings of this shop.
func TestProcessAnswers(t *testing.T) {
	t.Parallel()
	s, output := open(t, "right")
	p, other := start(t, s), start(t, s)
	for user, want := range map[int64]bool{1: true, 2: false} {
		if yes, err := p.Buy(t.Context(), user); err != nil || yes != want {
			t.Errorf("user %d: %v, %v", user, yes, err)
		}
	}
	if _, err := p.Buy(t.Context(), 3); err == nil || !strings.Contains(err.Error(), "POST /buy answers 500") {
		t.Errorf("user 3: %v", err)
	}
	if err := p.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if canReach(p.port) || !canReach(other.port) {
		t.Error("Stop ends one process, and no other")
	}
	if _, err := other.Buy(t.Context(), 4); err == nil {
		t.Error("a process that ends answers")
	}
	<-other.exited
	if err := other.Stop(t.Context()); err == nil || !strings.Contains(err.Error(), "process 2 ended by itself (exit status 4)") {
		t.Error(err)
	}
	for _, want := range []string{"[process 1] a shop that is right\n", "[process 1] user 3:  postgres://lab\n", "[process 2] a shop that is right\n", "[process 1] ended\n"} {
		if !strings.Contains(output.String(), want) {
			t.Errorf("no %q: %s", want, output)
		}
	}
}

// A process ends in its own way or in ours. Only an answer that is not 200 is an error.
func TestProcessStops(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]string{"rude": "", "without an end": "POST /end: answers 404: want 200"} {
		s, _ := open(t, kind)
		p := start(t, s)
		err := p.Stop(t.Context())
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", kind, err)
		}
		if canReach(p.port) {
			t.Errorf("%s: it goes on", kind)
		}
	}
	s, output := open(t, "right")
	p := start(t, s)
	ended, end := context.WithCancel(t.Context())
	end()
	if err := p.Stop(ended); err != nil || strings.Contains(output.String(), "ended") || canReach(p.port) {
		t.Errorf("after the end of the run: %v, %s", err, output)
	}
}

// A program that does not become ready is named with its last lines.
func TestProgramThatDoesNotStart(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]string{
		"broken":      `process 1 of .*: the program ended before it was ready \(exit status 3\)\nthe last lines that it printed:\n  line 20\n(  line \d\d\n){9}  no such class$`,
		"never ready": `(?s)not ready after \S+: GET http://127.0.0.1:\d+/ready answers 503, not 200\n.*a shop that is never ready$`,
	} {
		s, _ := open(t, kind)
		if kind == "never ready" {
			s.readyLimit = 300 * time.Millisecond
		}
		p, err := s.Start(t.Context(), nil)
		for err != nil && strings.Contains(err.Error(), "is not answered") { // it has not begun to listen
			s.readyLimit *= 2
			p, err = s.Start(t.Context(), nil)
		}
		if err == nil || p != nil || !regexp.MustCompile(want).MatchString(err.Error()) {
			t.Errorf("%s: %v", kind, err)
		}
	}
	s := New("sleep 60", &sandboxtest.SyncBuffer{})
	s.readyLimit = 100 * time.Millisecond
	if _, err := s.Start(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "is not answered: does the program listen on 127.0.0.1 and on the port in the variable PORT?") {
		t.Error(err)
	}
	stopped, stop := context.WithTimeout(t.Context(), 100*time.Millisecond) //timing: the stop that the test is about
	defer stop()
	s.readyLimit = time.Minute
	if _, err := s.Start(stopped, nil); stopped.Err() == nil || err == nil || !strings.Contains(err.Error(), stopped.Err().Error()) {
		t.Error(err)
	}
}

// A port that another program took in the meantime is no error, while others are free.
func TestTakenPort(t *testing.T) {
	t.Parallel()
	listen, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listen.Close()
	go func() {
		for c, err := listen.Accept(); err == nil; c, err = listen.Accept() {
			c.Close()
		}
	}()
	s, output := open(t, "right")
	tries := 0
	s.freePort = func() (string, error) {
		if tries++; tries == 1 {
			return strconv.Itoa(listen.Addr().(*net.TCPAddr).Port), nil
		}
		return freePort()
	}
	p := start(t, s)
	if yes, err := p.Buy(t.Context(), 1); err != nil || !yes || tries != 2 {
		t.Errorf("%v, %v after %d tries: %s", yes, err, tries, output)
	}
	s.freePort = func() (string, error) { return strconv.Itoa(listen.Addr().(*net.TCPAddr).Port), nil }
	if _, err := s.Start(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "its port was taken") || !strings.Contains(err.Error(), "address already in use") {
		t.Error(err)
	}
}

// A process that prints without end is cut off, and its last lines stay known.
func TestOutputIsBounded(t *testing.T) {
	t.Parallel()
	output := &sandboxtest.SyncBuffer{}
	l := &lines{to: output, prefix: "> "}
	for i := range 500 {
		fmt.Fprintf(l, "line %d\r\n", i)
	}
	fmt.Fprint(l, strings.Repeat("x", 3*lineLength))
	if n := strings.Count(output.String(), "\n"); n != shownLines+1 || !strings.HasSuffix(output.String(), "> line 99\n> (more lines are not shown)\n") {
		t.Errorf("%d lines: %s", n, output)
	}
	if last := l.last(); strings.Count(last, "\n") != lastLines+2 || !strings.Contains(last, "\n  line 499\n") || len(last) > 4*lineLength {
		t.Errorf("last: %s", last)
	}
}

func canReach(port string) bool {
	c, err := net.DialTimeout("tcp", "127.0.0.1:"+port, time.Second) //timing: one try of a wait for a state
	if err == nil {
		c.Close()
	}
	return err == nil
}
