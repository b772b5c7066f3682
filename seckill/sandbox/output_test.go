package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The messages of this start explain why a server failed. The messages of an earlier start do not.
func TestLogExplainsAFailedStart(t *testing.T) {
	fault := errors.New("it ended at once")
	for _, c := range []struct {
		name, said, want string
		taken            bool
	}{
		{"says nothing", "", "it ended at once (see ", false},
		{"says why", "LOG:  starting\n2026 [7] FATAL:  data directory has wrong ownership\n2026 [7] LOG:  database system is shut down\n",
			"it ended at once: FATAL:  data directory has wrong ownership (see ", false},
		{"port taken", "LOG:  could not bind IPv4 address \"127.0.0.1\": Address already in use\nFATAL:  could not create any TCP/IP sockets\n",
			"", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "postgres.log")
			if err := os.WriteFile(path, []byte("FATAL:  of yesterday, could not bind\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			log, err := openLog(path)
			if err != nil {
				t.Fatal(err)
			}
			defer log.file.Close()
			if _, err := log.file.WriteString(c.said); err != nil {
				t.Fatal(err)
			}
			got := log.explain(fault, "FATAL:", "could not bind")
			if errors.Is(got, errPortTaken) != c.taken || !strings.HasPrefix(got.Error(), c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// A large log is emptied at the next start.
func TestLogIsEmptied(t *testing.T) {
	path := filepath.Join(t.TempDir(), "postgres.log")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, logLimit+1); err != nil {
		t.Fatal(err)
	}
	log, err := openLog(path)
	if err != nil {
		t.Fatal(err)
	}
	defer log.file.Close()
	if info, err := os.Stat(path); err != nil || info.Size() != 0 || log.start != 0 {
		t.Errorf("size %d, began at %d, %v; want an empty log", info.Size(), log.start, err)
	}
}
