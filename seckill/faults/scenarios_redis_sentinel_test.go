//go:build faults && linux

package faults

// redisSentinelScenarios returns the scenarios on a master and a replica that sentinels watch.
func redisSentinelScenarios() []scenario {
	return []scenario{
		{name: "a master behind Sentinel killed", detail: "its replica takes over", realRedis: true, losesData: true,
			setup: setup{sentinel: true}, crowd: groupPlan, run: killMaster, after: checkNoTicketLost},
	}
}
