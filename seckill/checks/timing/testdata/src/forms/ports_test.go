package forms_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"testing"

	"miaosha/seckill/sandbox/sandboxtest"
)

const address = "localhost:8080"

func TestFixedPorts(t *testing.T) {
	net.Listen("tcp", "127.0.0.1:7000") // want `a fixed port`
	net.Listen("tcp", ":9090")          // want `a fixed port`
	net.Listen("tcp", address)          // want `a fixed port`
	net.Listen("tcp", "127.0.0.1:1")    // want `a fixed port`
	net.Listen("tcp", "127.0.0.1:0")
	net.Dial("tcp", "127.0.0.1:7000")              // want `a fixed port`
	http.Get("http://127.0.0.1:7000/api/sales")    // want `a fixed port`
	http.NewRequest("GET", "http://"+address, nil) // want `a fixed port`
	http.Get("http://127.0.0.1:1")
	http.Get("https://shop.example/path")
	(&http.Server{Addr: ":7000"}).ListenAndServe()                 // want `a fixed port`
	exec.Command("shop", "--addr", "127.0.0.1:7000")               // want `a fixed port`
	sandboxtest.Open("REDIS_URL=redis://localhost:6379/0")         // want `a fixed port`
	sandboxtest.Open(append([]string{"A=1"}, "B=127.0.0.1:81")...) // want `a fixed port`
	for _, c := range []struct{ text, want string }{{"127.0.0.1:8080", "a host and a port"}} {
		t.Log(c)
	}
	t.Log("12:30 at 127.0.0.1:8080", http.StatusText(8080))
}

func freePort(t *testing.T) string {
	l, _ := net.Listen("tcp", "127.0.0.1:0")
	defer l.Close() // want `a port that was released`
	return l.Addr().String()
}

func TestReleasedPort(t *testing.T) {
	l, _ := net.Listen("tcp", "127.0.0.1:0")
	at := l.Addr().String()
	_, port, _ := net.SplitHostPort(at)
	l.Close() // want `a port that was released`
	net.Dial("tcp", at)
	net.Dial("tcp", "127.0.0.1:"+port)
	gone := httptest.NewServer(nil)
	gone.Close() // want `a port that was released`
	http.Get(gone.URL)
	kept := httptest.NewServer(nil)
	defer kept.Close()
	http.Get(kept.URL)
	done, _ := net.Listen("tcp", "127.0.0.1:0")
	t.Log(fmt.Sprint(done.Addr()))
	done.Close()
}

func dial() (net.Conn, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer l.Close()
	return net.Dial("tcp", l.Addr().String())
}
