package operator

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"

	"miaosha/seckill/lab"
	"miaosha/seckill/lab/strategies"
	"miaosha/seckill/report"
)

//go:embed lab_page.html
var labPageText string

var labPage = report.New(labPageText, template.FuncMap{"count": dashIfZero, "perOrder": perOrder})

// writeLabPage writes the results as one self-contained page: the table, bars of the throughput, and
// each strategy's source with the lines that decide.
func writeLabPage(w io.Writer, origin report.Origin, p lab.Plan, results []lab.Result, at time.Time) error {
	type line struct {
		N      int
		Text   string
		Marked bool
	}
	type row struct {
		lab.Result
		Bar   float64 // percent of the fastest
		File  string
		Lines []line
	}
	fastest := 1.0
	for _, r := range results {
		fastest = max(fastest, r.PerSecond)
	}
	infos := map[string]strategies.Info{}
	for _, info := range strategies.All() {
		infos[info.Name] = info
	}
	rows, sources := make([]row, len(results)), false
	for i, r := range results {
		info := infos[r.Strategy]
		rows[i] = row{Result: r, Bar: 100 * r.PerSecond / fastest, File: info.File}
		sources = sources || info.File != ""
		for n, text := range strings.Split(strings.TrimSuffix(info.Source, "\n"), "\n") {
			l := line{N: n + 1, Text: text}
			for _, m := range info.Marks {
				l.Marked = l.Marked || m[0] <= l.N && l.N <= m[1]
			}
			rows[i].Lines = append(rows[i].Lines, l)
		}
	}
	head := report.Head{Title: report.Words{En: "miaosha lab", Zh: "miaosha 实验室"}, At: at.UTC(), Origin: origin,
		Machine: fmt.Sprintf("%d CPUs, %s %s/%s", runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH),
		Facts: []report.Words{{En: planText(p), Zh: planTextZh(p)},
			{En: "The crowd, the shop's processes and the stores share this machine, so compare rows, not machines.",
				Zh: "买家、店铺的各个进程和数据库共用这台机器，所以只能在各行之间比较，不能在机器之间比较。"}}}
	head.Good, head.Verdict = labVerdict(p, results)
	head.Mixed = slices.ContainsFunc(results, func(r lab.Result) bool { return !r.Right })
	if err := labPage.ExecuteTemplate(w, "frame", map[string]any{"Head": head, "Rows": rows,
		"Sources": sources}); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

func planTextZh(p lab.Plan) string {
	text := fmt.Sprintf("%d 个买家，%d 件库存，%d%% 的人点两次，%d 个进程，随机种子 %d", p.Buyers, p.Stock, p.DoubleClicks, p.Nodes, p.Seed)
	if len(p.Faults) > 0 {
		text += "，故障：" + strings.Join(p.Faults, "、")
	}
	return text
}

// labVerdict returns the results in one sentence. They are good if every strategy ended, and without a fault those that
// are right by design came out right. An outside shop has to be right under faults too.
func labVerdict(p lab.Plan, results []lab.Result) (good bool, w report.Words) {
	right, wrong, byDesign := 0, map[string][]string{}, map[string]strategies.Info{}
	for _, info := range strategies.All() {
		byDesign[info.Name] = info
	}
	good = true
	for _, r := range results {
		if r.Right {
			right++
		}
		if r.Lucky {
			wrong["lucky"] = append(wrong["lucky"], r.Strategy)
		}
		good = good && r.Error == "" && (r.Right || r.Strategy != lab.Student &&
			(!byDesign[r.Strategy].Right || len(p.Faults) > 0))
		for kind, is := range map[string]bool{"oversold": r.Oversold > 0, "unsold": r.Unsold > 0 && !r.Slow,
			"duplicates": r.Duplicates > 0, "lost": r.Lost > 0, "denied": r.Denied > 0,
			"slow": r.Slow && !r.Busy, "busy": r.Slow && r.Busy, "error": r.Error != "" && !r.Slow} {
			if is {
				wrong[kind] = append(wrong[kind], r.Strategy)
			}
		}
	}
	w = report.Words{En: fmt.Sprintf("%d of %d strategies came out right in this run", right, len(results)),
		Zh: fmt.Sprintf("这一次运行里，%d 种方案有 %d 种结果正确", len(results), right)}
	for _, part := range []struct{ kind, en, zh string }{
		{"oversold", "sold more than there was: ", "超卖："}, {"unsold", "left units unsold: ", "少卖："},
		{"duplicates", "sold twice to one buyer: ", "同一买家买到两件："},
		{"lost", "lost what it had promised: ", "丢单："}, {"denied", "said no to buyers with an order: ", "有订单却说没抢到："},
		{"lucky", "right by luck alone: ", "侥幸才对："},
		{"slow", "exact, but slow, not finished: ", "准确，但慢，没有跑完："},
		{"busy", "not finished, since the machine was too busy: ", "机器太忙，没有跑完："},
		{"error", "did not finish: ", "没有跑完："},
	} {
		if names := wrong[part.kind]; len(names) > 0 {
			w.En += "; " + part.en + strings.Join(names, ", ")
			w.Zh += "；" + part.zh + strings.Join(names, "、")
		}
	}
	w.En, w.Zh = w.En+".", w.Zh+"。"
	return good, w
}
