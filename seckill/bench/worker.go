package bench

import (
	"container/heap"
	"context"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// worker owns one connection and those of the buyers who came to it.
type worker struct {
	t     *turn
	tally *tally
	wire  wire
	out   []byte
	later later
}

// run works until nobody is left or the time is up.
func (w *worker) run(ctx context.Context) error {
	defer w.wire.close()
	alarm := time.NewTimer(time.Hour)
	defer alarm.Stop()
	next := w.t.claim()
	for (next != nil || len(w.later) > 0) && ctx.Err() == nil {
		now, first := time.Now(), next
		if len(w.later) > 0 && (next == nil || w.later[0].at.Before(next.at)) {
			first = w.later[0]
		}
		if now.After(w.t.end) {
			break
		}
		if wait := min(first.at.Sub(now), w.t.end.Sub(now)); wait > 0 {
			alarm.Reset(wait)
			select {
			case <-alarm.C:
			case <-ctx.Done():
			}
			continue
		}
		if first != next {
			heap.Pop(&w.later)
			w.act(ctx, first)
			continue
		}
		w.arrive(now, next)
		w.act(ctx, next)
		next = w.t.claim()
	}
	w.tally.note(func(t *tally) { t.Unknown += int64(len(w.later)) })
	return nil
}

func (w *worker) arrive(now time.Time, b *buyer) {
	w.tally.note(func(t *tally) {
		t.Offered++
		record(t.lag, now.Sub(b.planned))
	})
	switch b.step = w.t.plan.first; {
	case b.step == stepPoll:
		b.accepted = true
	case b.step == stepList:
	case b.Path != "":
		b.step = stepBuy
	default:
		b.step = w.t.ask()
	}
}

// ask is the first step of who has no address.
func (t *turn) ask() step {
	if t.Captcha {
		return stepSum
	}
	return stepPath
}

// again puts the buyer's next step off.
func (w *worker) again(b *buyer, s step, wait time.Duration) {
	b.step, b.at = s, time.Now().Add(wait)
	heap.Push(&w.later, b)
}

// act does the buyer's next step and what follows at once.
func (w *worker) act(ctx context.Context, b *buyer) {
	for w.once(ctx, b) && ctx.Err() == nil {
	}
}

// once does one step. It tells whether the next one, which it has set, is to be done now.
func (w *worker) once(ctx context.Context, b *buyer) (more bool) {
	limit := answerLimit
	patience := w.t.plan.patience
	if patience > 0 && b.step == stepBuy && !b.accepted {
		limit = patience/2 + rand.N(patience)
	}
	w.write(b)
	began := time.Now()
	a, err := w.wire.ask(ctx, w.out, limit)
	if err != nil {
		if ctx.Err() != nil {
			return false // it is we who stopped
		}
		return w.fault(b, kind(err), limit < answerLimit)
	}
	took := time.Since(b.planned)
	if a.status == http.StatusOK && b.step == stepList {
		w.page(a, took)
		return false
	}
	if a.status == http.StatusOK && a.sum != "" {
		w.tally.note(func(t *tally) { t.Requests++ })
		b.sum, b.step = a.sum, stepPath
		return true
	}
	code := field(a.body, "code")
	if string(code) != "ok" {
		return w.refused(b, a, string(code), took, time.Since(began))
	}
	w.tally.note(func(t *tally) { t.Requests++ })
	switch b.step {
	case stepPath:
		b.Path, b.step = string(field(a.body, "path")), stepBuy
		return true
	case stepBuy:
		if !b.accepted {
			b.accepted = true
			w.tally.note(func(t *tally) {
				t.Accepted++
				record(t.accept, took)
			})
		}
		return w.state(b, a, took)
	case stepPoll:
		return w.state(b, a, took)
	case stepPay:
		b.order, b.step = string(field(a.body, "payment_id")), stepConfirm
		return true
	default: // confirmed
		w.tally.note(func(t *tally) { t.Paid++ })
		return false
	}
}

// page counts a page that came, if it is as it should be. What was in one of them has been looked at before.
func (w *worker) page(a answer, took time.Duration) {
	if len(a.body) == 0 || a.encoding != w.t.page.Encoding {
		w.failed("not the page")
		return
	}
	w.tally.note(func(t *tally) {
		t.Requests++
		t.Pages++
		record(t.page, took)
	})
}

// state reads how the buyer stands.
func (w *worker) state(b *buyer, a answer, took time.Duration) (more bool) {
	switch state := string(field(a.body, "state")); state {
	case "queued":
		if b.k%100 < w.t.Poll {
			ms, _ := number(field(a.body, "next_poll_ms"))
			w.again(b, stepPoll, time.Duration(max(10, ms))*time.Millisecond)
		}
	case "none":
		if b.accepted {
			w.failed("ticket forgotten")
		}
	case "ordered", "sold_out", "closed", "invalid":
		w.tally.note(func(t *tally) {
			t.Known++
			t.outcomes[state]++
			record(t.known, took)
		})
		if state == "ordered" && b.pays(w.t.Pay) {
			b.order, b.step = string(field(a.body, "order_id")), stepPay
			return true
		}
	default:
		w.failed("unknown state")
	}
	return false
}

// refused takes a no. Some come back for another try, if the shape has patient buyers.
func (w *worker) refused(b *buyer, a answer, code string, took, sent time.Duration) (more bool) {
	if code == "" || a.status >= 500 && code != "busy" {
		return w.fault(b, strconv.Itoa(a.status)+" "+code, false)
	}
	w.tally.note(func(t *tally) {
		t.Requests++
		t.Refused++
		t.refused[code]++
		record(t.refusal, took)
		record(t.sent, sent)
	})
	switch {
	case code == "sold_out" && b.unheard && b.step == stepBuy:
		b.step = stepPoll // perhaps one of the units is his
		return true
	case code == "bad_path" && w.t.plan.again && b.step == stepBuy:
		b.Path = ""
		w.again(b, w.t.ask(), 100*time.Millisecond)
	case code == "busy" || code == "too_many" || code == "not_started":
		// Who was let in wants to know; who wasn't tries again as far as the shape has it so.
		if b.step != stepList && (w.t.plan.again || b.step > stepBuy) {
			next := b.step
			if next == stepPath {
				next = w.t.ask() // his sum is used up
			}
			w.again(b, next, max(100*time.Millisecond, a.wait))
		}
	}
	return false
}

// fault counts a request that got no proper answer. Perhaps it was heard; to buy twice is safe.
func (w *worker) fault(b *buyer, kind string, impatient bool) (more bool) {
	b.unheard = b.unheard || b.step == stepBuy
	if impatient && kind == "timeout" {
		w.tally.note(func(t *tally) { t.Aborted++ })
		w.again(b, stepBuy, time.Millisecond)
		return false
	}
	w.failed(kind)
	if w.t.plan.again && b.step <= stepPoll {
		w.again(b, b.step, 200*time.Millisecond)
	}
	return false
}

func (w *worker) failed(kind string) {
	w.tally.note(func(t *tally) {
		t.Failed++
		t.failed[kind]++
	})
}
