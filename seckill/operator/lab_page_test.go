package operator

import (
	"testing"

	"miaosha/seckill/lab"
	"miaosha/seckill/report"
)

// The sentence on top of the lab's page counts what came out right, and names what was only lucky.
func TestTheVerdictOfTheLab(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		results []lab.Result
		good    bool
		want    report.Words
	}{
		{[]lab.Result{{Strategy: "shop", Right: true}, {Strategy: "mutex", Oversold: 2}, {Strategy: "redis-lock", Right: true, Lucky: true}, {Strategy: "lua-channel", Right: true}}, true,
			report.Words{En: "3 of 4 strategies came out right in this run; sold more than there was: mutex; right by luck alone: redis-lock.",
				Zh: "这一次运行里，4 种方案有 3 种结果正确；超卖：mutex；侥幸才对：redis-lock。"}},
		{[]lab.Result{{Strategy: "shop", Lost: 1}, {Strategy: "guard-unique", Error: "late"}}, false,
			report.Words{En: "0 of 2 strategies came out right in this run; lost what it had promised: shop; did not finish: guard-unique.",
				Zh: "这一次运行里，2 种方案有 0 种结果正确；丢单：shop；没有跑完：guard-unique。"}},
		{[]lab.Result{{Strategy: "for-update", Slow: true, Unsold: 9, Error: "late"}, {Strategy: "shop", Slow: true, Busy: true, Unsold: 9, Error: "late"}}, false,
			report.Words{En: "0 of 2 strategies came out right in this run; exact, but slow, not finished: for-update; not finished, since the machine was too busy: shop.",
				Zh: "这一次运行里，2 种方案有 0 种结果正确；准确，但慢，没有跑完：for-update；机器太忙，没有跑完：shop。"}},
	} {
		if good, got := labVerdict(lab.Plan{}, c.results); good != c.good || got != c.want {
			t.Errorf("%v, %+v; want %v, %+v", good, got, c.good, c.want)
		}
	}
}

// What a report says of its command shows no secret.
func TestACommandLineHasNoSecrets(t *testing.T) {
	t.Parallel()
	got := Origin([]string{"bench", "--secret", "sesame", "--database-url=postgres://u:sesame@h/d", "--redis-url", "redis://:sesame@h", "-n", "5", "--html", "my page.html"}, "v1").Command
	want := "miaosha bench --secret '****' '--database-url=postgres://u:****@h/d' --redis-url 'redis://:****@h' -n 5 --html 'my page.html'"
	if got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}
