//go:build faults && linux

package faults

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// nginxScenarios returns the scenarios with three shops behind nginx, as deploy/nginx.conf has it.
func nginxScenarios() []scenario {
	return []scenario{
		{name: "three processes restarted in turn behind nginx", setup: behindNginx(), crowd: restartsPlan(5),
			run: func(env *Environment, c *Crowd) {
				c.WaitSold(30)
				env.Inject("restarted in turn", func() {
					for n, s := range env.Shops {
						c.nextPhase()
						if code := s.Term(); code != 0 {
							env.Report("I10: shop %d exited with %d after SIGTERM", n, code)
						}
						env.restart(n)
					}
				})
			},
			after: func(env *Environment, c *Crowd) { env.checkReplies(c, false) }},
		{name: "one of three killed behind nginx", long: true, setup: behindNginx(), crowd: restartsPlan(3),
			run: func(env *Environment, c *Crowd) {
				c.WaitSold(30)
				env.Inject("one of three killed", func() {
					env.Shops[1].Kill()
					c.nextPhase()
					c.Wait(3 * time.Second)
				})
				env.restart(1)
			},
			after: func(env *Environment, c *Crowd) { env.checkReplies(c, false) }},
		{name: "nginx killed and started again", long: true, setup: behindNginx(), crowd: restartsPlan(3),
			run: func(env *Environment, c *Crowd) {
				c.WaitSold(30)
				env.Inject("nginx killed", func() {
					env.Nginx.Kill()
					c.nextPhase()
					c.Wait(time.Second)
					if err := env.Nginx.Start(); err != nil {
						env.T.Error(err)
					}
				})
			},
			after: func(env *Environment, c *Crowd) { env.checkReplies(c, true) }},
	}
}

// restartsPlan is a crowd with a group of buyers for each step of a fault, and one for the time after it.
func restartsPlan(phases int) plan {
	return plan{buyers: 700, units: 800, span: 20 * time.Second, phases: phases, twice: 20, pays: 50, cancels: 10, fetchesPath: 30,
		payAfter: 300 * time.Millisecond, limit: 40 * time.Second}
}

// mostBusy is the share of requests, in percent, that may be answered "busy": a POST is not repeated if the process that has it
// is gone.
const mostBusy = 1

// checkReplies counts the replies that the crowd received. It fails the test if one is an error that no retry mends, if one is
// missing while nginx was up, or if too many are busy.
func (env *Environment) checkReplies(c *Crowd, nginxWasDown bool) {
	faults, _ := env.injected()
	counts, busy := map[string]int{}, 0
	all := c.ledger.filter(func(response) bool { return true })
	for _, resp := range all {
		during := resp.Sent.Before(faults[0].end) && resp.received().After(faults[0].begin)
		switch {
		case resp.Status == 503 && resp.Code == "busy" && resp.RetryAfter > 0:
			busy++
			counts[fmt.Sprint("503 to ", resp.Kind)]++
			continue
		case resp.Status == 0 && nginxWasDown && during:
		case resp.gaveUp():
			env.Late("I11: no reply to %s in %v", resp.Kind, formatBound(resp.Took))
		case resp.Status == 0 || resp.Status >= 500:
			env.Report("I11: a reply to %s was %d %s after %v", resp.Kind, resp.Status, resp.Code, resp.Took)
		}
		counts[fmt.Sprint(resp.Status)]++
	}
	if 100*busy > mostBusy*len(all) {
		env.Late("I11: %d of %d requests were answered busy", busy, len(all))
	}
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d× %s", counts[what], what))
	}
	env.sc.detail = "replies: " + strings.Join(parts, ", ")
}
