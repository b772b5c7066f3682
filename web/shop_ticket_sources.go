package web

import (
	"io/fs"
	"path"
	"regexp"
	"strings"
)

// sourceFunc is a function of the shop as the timeline of a ticket shows it.
type sourceFunc struct {
	File   string `json:"file"`
	Name   string `json:"name"`
	Line   int    `json:"line"` // of the first line of source
	Source string `json:"source"`
	Mark   int    `json:"mark,omitempty"` // the line of the source that decides, from 1; 0 for none
}

// stepSources names what does each step of a ticket: a file, a function in it (receiver.name; "" is the whole file),
// and a part of the line that decides.
var stepSources = map[string][][3]string{
	"sum_drawn":  {{"seckill/captcha/captcha.go", "Sums.draw", "SaveCaptcha("}},
	"sum_solved": {{"seckill/captcha/captcha.go", "Sums.check", "TakeCaptcha("}},
	"address": {{"seckill/big_gate.go", "bigGate.admit", "b.gate.Address("},
		{"seckill/address/address.go", "Signer.Sign", "s.mac("}},
	"click":        {{"seckill/lane.go", "lane.click", "l.in <- c"}},
	"batch":        {{"seckill/lane.go", "lanes.runLane", "len(batch) < ls.batch"}},
	"granted":      {{"seckill/lane.go", "lanes.serve", "ls.reserve("}},
	"journaled":    {{"seckill/gate/scripts/reserve.lua", "", "'XADD'"}},
	"queued":       {{"seckill/queue/queue.go", "Queue.Submit", "append(s.waiting"}},
	"claimed":      {{"seckill/reclaim.go", "reclaimer.enqueueEntries", "r.enqueue("}},
	"ordered":      {{"order/place.go", "Store.sell", "goods.Take("}, {"goods/stock.go", "Take", "stock >= $2"}},
	"refused":      {{"order/place.go", "Store.refuse", ""}},
	"settled":      {{"seckill/settle.go", "settler.settle", "goods.Lock("}},
	"acknowledged": {{"seckill/acks.go", "acks.ack", "a.gate.Ack("}},
	"told":         {{"seckill/news/news.go", "Subscribers.Publish", "ch <- struct{}{}"}},
	"payment":      {{"order/pay.go", "Store.OpenPayment", ""}},
	"paid":         {{"order/pay.go", "Store.Capture", ""}, {"order/pay.go", "receive", "status || '' = 'pending'"}},
	"cancelled":    {{"order/expire.go", "Store.Cancel", ""}, {"order/expire.go", "Store.giveBack", "goods.Lock("}},
	"expired":      {{"order/expire.go", "Store.expireSale", ""}, {"order/expire.go", "Store.giveBack", "goods.Lock("}},
	"refunded":     {{"order/pay.go", "Store.Refund", ""}, {"order/expire.go", "Store.giveBack", "goods.Lock("}},
}

// loadSources returns the functions of each step. It leaves out what is not there, which a test forbids; nil has no
// sources.
func loadSources(repository fs.FS) map[string][]sourceFunc {
	if repository == nil {
		return nil
	}
	found := map[string][]sourceFunc{}
	for step, places := range stepSources {
		for _, p := range places {
			text, err := fs.ReadFile(repository, p[0])
			if err != nil {
				continue
			}
			if f, ok := findFunc(string(text), p[0], p[1], p[2]); ok {
				found[step] = append(found[step], f)
			}
		}
	}
	return found
}

// findFunc returns a function of a file with the comment above it, and the line of it that contains mark.
func findFunc(text, file, name, mark string) (f sourceFunc, ok bool) {
	f = sourceFunc{File: file, Name: name, Line: 1, Source: text}
	if name == "" {
		f.Name = path.Base(file)
	} else {
		receiver, method, isMethod := strings.Cut(name, ".")
		declaration := `\n((//.*\n)*)func ` + receiver + `\(`
		if isMethod {
			declaration = `\n((//.*\n)*)func \(\w+ \*?` + receiver + `\) ` + method + `\(`
		}
		at := regexp.MustCompile(declaration).FindStringIndex(text)
		if at == nil {
			return f, false
		}
		body, _, found := strings.Cut(text[at[0]+1:], "\n}\n")
		if !found {
			return f, false
		}
		f.Line, f.Source = strings.Count(text[:at[0]+1], "\n")+1, body+"\n}\n"
	}
	if before, _, marked := strings.Cut(f.Source, mark); marked && mark != "" {
		f.Mark = strings.Count(before, "\n") + 1
	}
	return f, mark == "" || f.Mark > 0
}
