package backend

import (
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
)

// What servers of several versions say is told with the command, which some of them do not name, and with the way out.
func TestWhatARedisCannotDoIsNamed(t *testing.T) {
	t.Parallel()
	const script = "-- a contract\nlocal has = redis.call('GET', KEYS[1])\nredis.call('XDEL', KEYS[1], '0-0')\n"
	sum := sha1.Sum([]byte(script))
	hash := hex.EncodeToString(sum[:])
	for _, test := range []struct{ says, want, also string }{
		{"ERR unknown command `GETDEL`, with args beginning with: `ms:{1}:captcha`, ", "this Redis does not know GETDEL", "6.2 or newer"},
		{"ERR unknown command 'xdel', with args beginning with: 'S3cret' ", "this Redis does not know XDEL", "6.2 or newer"},
		{"ERR Unknown Redis command called from script script: " + hash + ", on @user_script:2.", "this Redis does not know GET", ""},
		{"ERR Error running script (call to f_" + hash + "): @user_script:3: @user_script: 3: Unknown Redis command called from Lua script", "this Redis does not know XDEL", ""},
		{"NOPERM this user has no permissions to run the 'xgroup|create' command", "the user in it may not run XGROUP CREATE", "deploy/README.md"},
		{"NOPERM User shop has no permissions to run the 'hset' command script: " + hash + ", on @user_script:2.", "the user in it may not run HSET", "deploy/README.md"},
		{"ERR The user executing the script can't run this command or subcommand script: " + hash + ", on @user_script:2.", "the user in it may not run GET", "deploy/README.md"},
		{"NOPERM this user has no permissions to access one of the keys used as arguments", "the user in it may not use all keys ms:*", "deploy/README.md"},
		{"NOPERM No permissions to access a key", "the user in it may not use all keys ms:*", ""},
		{"ERR The user executing the script can't access at least one of the keys mentioned in the command arguments", "the user in it may not use all keys ms:*", ""},
		{"READONLY You can't write against a read only replica.", "this Redis is a read-only replica", "master"},
		{"OOM command not allowed when used memory > 'maxmemory'.", "this Redis is full (OOM)", "maxmemory"},
		{"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.", "this Redis cannot save its data", "log"},
		{"NOREPLICAS Not enough good replicas to write.", "this Redis has too few replicas", "min-replicas-to-write"},
		{"MOVED 3999 127.0.0.1:6381", "this Redis is a node of a Cluster", "commas"},
		{"CLUSTERDOWN Hash slot not served", "this Redis is a node of a Cluster", ""},
		{"LOADING Redis is loading the dataset in memory", "this Redis still loads its data", ""},
		{"ERR DB index is out of range", "this Redis has no database of this number", "databases"},
		{"ERR something new\nin two lines", "this Redis cannot do what the shop needs: ERR something new in two lines", ""},
	} {
		got := unable(errors.New(test.says), []string{"another", script}).Error()
		if !strings.HasPrefix(got, test.want) || !strings.Contains(got, test.also) || strings.ContainsAny(got, "\r\n") || strings.Contains(got, "S3cret") {
			t.Errorf("%s\n%s, want %s", test.says, got, test.want)
		}
	}
}
