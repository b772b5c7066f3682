package backend

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Need is what a part of the shop needs of its Redis.
type Need struct {
	Scripts []string                                           // the sources of its scripts
	Probe   func(context.Context, redis.UniversalClient) error // makes each of its calls once
}

// Prove makes the calls of the shop at its Redis once, and returns an error of one line that names the setting, the
// command and the way out if one of them fails. A Redis that is slow for a moment is asked again.
func (s *Stores) Prove(ctx context.Context, needs ...Need) error {
	ready := Need{Probe: func(ctx context.Context, rdb redis.UniversalClient) error {
		return rdb.Set(ctx, readyKey, "", readyLife).Err()
	}}
	for _, need := range append([]Need{ready}, needs...) {
		err := prove(ctx, need.Scripts, func(ctx context.Context) error { return need.Probe(ctx, s.Redis) })
		if err != nil {
			return fmt.Errorf("%s: %w", s.redisSetting, err)
		}
	}
	return nil
}

// ProveBoth is Prove that asks the Redis of the sessions too, where it is another one.
func (s *Stores) ProveBoth(ctx context.Context, need Need) error {
	if err := s.Prove(ctx, need); err != nil || s.sessions == nil {
		return err
	}
	return s.ProveSessions(ctx, need.Scripts, func(ctx context.Context) error { return need.Probe(ctx, s.sessions) })
}

// ProveSessions is Prove for the Redis of the sessions.
func (s *Stores) ProveSessions(ctx context.Context, scripts []string, probe func(context.Context) error) error {
	if err := prove(ctx, scripts, probe); err != nil {
		return fmt.Errorf("%s: %w", s.sessionSetting, err)
	}
	return nil
}

func prove(ctx context.Context, scripts []string, probe func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	for {
		err := probe(ctx)
		var timeout net.Error
		if err == nil {
			return nil
		}
		if !errors.As(err, &timeout) || !timeout.Timeout() || ctx.Err() != nil {
			return unable(err, scripts)
		}
		select { // until a breaker lets calls through again
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
}

var (
	unknownCommand = regexp.MustCompile("unknown (?:command|subcommand) ['`\"]([A-Za-z|_]+)")
	noPermission   = regexp.MustCompile(`has no permissions to run the '([^']+)' command`)
	scriptLine     = regexp.MustCompile(`(?:f_|script: )([0-9a-f]{40}).*user_script:\s?(\d+)`)
	scriptCall     = regexp.MustCompile(`redis\.call\('([A-Z]+)'`)
	withArguments  = regexp.MustCompile(`,? with args beginning with:.*`) // they may be a password
)

// unable says in one line why a Redis cannot do what the shop needs, and what helps.
func unable(err error, scripts []string) error {
	text := withArguments.ReplaceAllString(strings.Join(strings.Fields(err.Error()), " "), "")
	command := "a command"
	for _, named := range []*regexp.Regexp{unknownCommand, noPermission} {
		if m := named.FindStringSubmatch(text); m != nil {
			command = strings.ToUpper(strings.ReplaceAll(m[1], "|", " "))
		}
	}
	if m := scriptLine.FindStringSubmatch(text); m != nil && command == "a command" {
		command = commandAt(scripts, m[1], m[2])
	}
	says := func(prefix string) bool { return strings.Contains(text, prefix) }
	const rights = `(deploy/README.md, With no more rights than it needs, has the line that grants them)`
	switch {
	case says("unknown command"), says("unknown subcommand"), says("Unknown Redis command"), says("Unknown command"):
		return fmt.Errorf("this Redis does not know %s: the shop needs Redis 6.2 or newer with no command renamed",
			command)
	case says("permissions to access"), says("can't access at least one of the keys"):
		return fmt.Errorf("the user in it may not use all keys ms:* %s: %s", rights, text)
	case says("permissions to run"), says("can't run this command"), says("The user executing the script"):
		return fmt.Errorf("the user in it may not run %s %s", command, rights)
	case says("NOPERM"):
		return fmt.Errorf("the user in it may not do all that the shop does %s: %s", rights, text)
	case says("READONLY"):
		return errors.New(
			"this Redis is a read-only replica: give the address of its master, or sentinels that name it (redis+sentinel://)")
	case says("OOM "):
		return errors.New(
			"this Redis is full (OOM) and takes no writes: raise its maxmemory, or delete what is not the shop's")
	case says("MISCONF"):
		return errors.New(
			"this Redis cannot save its data to the disk and takes no writes (MISCONF): its log has the reason; mend the disk")
	case says("NOREPLICAS"):
		return errors.New(
			"this Redis has too few replicas and takes no writes (NOREPLICAS): bring them back, or lower its min-replicas-to-write")
	case says("LOADING"):
		return errors.New("this Redis still loads its data (LOADING): start again when it has")
	case says("DB index is out of range"):
		return errors.New("this Redis has no database of this number: give a lower one, or raise its setting databases")
	case says("SELECT is not allowed in cluster mode"):
		return errors.New(
			"this Redis is a node of a Cluster, which has no other database than 0: leave the number out, and give all nodes with commas between")
	case says("MOVED "), says("CLUSTERDOWN"), says("CROSSSLOT"):
		return fmt.Errorf(
			"this Redis is a node of a Cluster, which is down or whose other nodes are missing here: give them with commas between (%s)",
			text)
	}
	return fmt.Errorf("this Redis cannot do what the shop needs: %s", text)
}

// commandAt returns the command in a line of the script that has a hash: Redis does not name it when a script fails.
func commandAt(scripts []string, hash, line string) string {
	n, _ := strconv.Atoi(line)
	for _, source := range scripts {
		sum := sha1.Sum([]byte(source))
		if hex.EncodeToString(sum[:]) != hash {
			continue
		}
		if lines := strings.Split(source, "\n"); n >= 1 && n <= len(lines) {
			if m := scriptCall.FindStringSubmatch(lines[n-1]); m != nil {
				return m[1]
			}
		}
	}
	return "a command of a script"
}
