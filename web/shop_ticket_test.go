package web_test

import (
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"miaosha/seckill/sandbox/sandboxtest"
	"miaosha/seckill/trace"
)

// What a killed process remembered of a ticket is gone, and the timeline names that process, but none that was gone before.
func TestATimelineNamesTheKilledProcess(t *testing.T) {
	t.Parallel()
	shop := openShop(t, "MIAOSHA_RATE=off")
	killed := shop.another()
	staff := shop.staff("13900001111", "admin", "")
	sale, token := shop.sale("--title", "Tea"), shop.tokens(1)[0]
	rdb := shop.redis()
	processes := func() []string { return rdb.ZRange(t.Context(), "ms:processes", 0, -1).Val() }
	sandboxtest.Until(t, "both processes show themselves", func() bool { return len(processes()) == 2 })
	type timeline struct {
		Ticket  string
		Steps   []trace.Step
		Missing []trace.Missing
		Asked   bool
	}
	follow := func(id string) (line timeline, names, gone []string) {
		shop.call("GET", "/api/admin/tickets/"+id, staff, "").Read(t, &line)
		for _, step := range line.Steps {
			names = append(names, step.Name)
		}
		for _, m := range line.Missing {
			gone = append(gone, m.Process)
		}
		return line, names, gone
	}

	killed.knows(sale)
	buyer := &sandboxtest.Buyer{Token: token, Sale: sale, Path: shop.address(sale, token)}
	order := buyer.At(func() string { return killed.URL }).Order(t)
	var before, after timeline
	var names, gone []string
	sandboxtest.Until(t, "while both live, the timeline has the ticket's grant, and nobody is missing", func() bool { // a slow one may answer too late
		before, names, gone = follow(order)
		return slices.Contains(names, "granted") && len(gone) == 0
	})
	i := slices.IndexFunc(before.Steps, func(step trace.Step) bool { return step.Name == "granted" })
	granter := before.Steps[i].Process

	entry, _, _ := strings.Cut(strings.Split(before.Ticket, ":")[1], "-")
	granted, err := strconv.ParseInt(entry, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	long := time.UnixMilli(granted).Add(-time.Minute)
	rdb.ZAdd(t.Context(), "ms:processes", redis.Z{Score: float64(long.UnixMilli()), Member: "gone " + strconv.FormatInt(long.Add(-time.Hour).UnixMilli(), 10)})
	killed.End(syscall.SIGKILL)
	sandboxtest.Until(t, "the process that granted the ticket is missing", func() bool {
		after, names, gone = follow(order)
		return slices.Equal(gone, []string{granter})
	})
	if slices.Contains(names, "granted") || !slices.Contains(names, "address") || !slices.Contains(names, "ordered") || !after.Asked {
		t.Errorf("the steps that others remember: %v", names)
	}
}
