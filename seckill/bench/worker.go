package bench

import (
	"container/heap"
	"context"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

// worker owns one connection and the buyers who arrived on it.
type worker struct {
	t       *turn
	tally   *tally
	client  client
	out     []byte
	waiting buyerHeap
}

// run serves buyers until none is left or the time is over.
func (w *worker) run(ctx context.Context) {
	defer w.client.close()
	alarm := time.NewTimer(time.Hour)
	defer alarm.Stop()
	next := w.t.claim()
	for (next != nil || len(w.waiting) > 0) && ctx.Err() == nil {
		now, first := time.Now(), next
		if len(w.waiting) > 0 && (next == nil || w.waiting[0].due.Before(next.due)) {
			first = w.waiting[0]
		}
		if now.After(w.t.end) {
			break
		}
		if wait := min(first.due.Sub(now), w.t.end.Sub(now)); wait > 0 {
			alarm.Reset(wait)
			select {
			case <-alarm.C:
			case <-ctx.Done():
			}
			continue
		}
		if first != next {
			heap.Pop(&w.waiting)
			w.doSteps(ctx, first)
			continue
		}
		w.arrive(now, next)
		w.doSteps(ctx, next)
		next = w.t.claim()
	}
	w.tally.update(func(t *tally) { t.Unknown += int64(len(w.waiting)) })
}

func (w *worker) arrive(now time.Time, b *buyer) {
	w.tally.update(func(t *tally) {
		t.Offered++
		record(t.lag, now.Sub(b.planned))
	})
	switch b.step = w.t.plan.firstStep; {
	case b.step == stepPoll:
		b.accepted = !w.t.plan.strangers
	case b.step == stepList:
	case b.Path != "":
		b.step = stepBuy
	default:
		b.step = w.t.pathStep()
	}
}

// pathStep returns the first step of a buyer without a hidden address.
func (t *turn) pathStep() step {
	if t.Captcha {
		return stepCaptcha
	}
	return stepPath
}

// schedule sets the buyer's next step and when it is due.
func (w *worker) schedule(b *buyer, s step, wait time.Duration) {
	b.step, b.due = s, time.Now().Add(wait)
	heap.Push(&w.waiting, b)
}

// doSteps does the buyer's next step and those that follow at once.
func (w *worker) doSteps(ctx context.Context, b *buyer) {
	for w.doStep(ctx, b) && ctx.Err() == nil {
	}
}

// doStep does one step. It sets the next one and reports whether that is to be done at once.
func (w *worker) doStep(ctx context.Context, b *buyer) (more bool) {
	limit := responseLimit
	patience := w.t.plan.patience
	if patience > 0 && b.step == stepBuy && !b.accepted {
		limit = patience/2 + rand.N(patience)
	}
	w.writeRequest(b)
	began := time.Now()
	resp, err := w.client.do(ctx, w.out, limit)
	if err != nil {
		if ctx.Err() != nil {
			return false // the run has been stopped
		}
		return w.handleFault(b, faultKind(err), limit < responseLimit)
	}
	took := time.Since(b.planned)
	if resp.status == http.StatusOK && b.step == stepList {
		w.handleList(resp, took)
		b.step = stepShow
		return w.t.plan.visits
	}
	if resp.status == http.StatusOK && resp.captchaAnswer != "" {
		w.tally.update(func(t *tally) { t.Requests++ })
		b.captcha, b.step = resp.captchaAnswer, stepPath
		return true
	}
	code := jsonValue(resp.body, "code")
	if string(code) != "ok" {
		return w.handleRefusal(b, resp, string(code), took, time.Since(began))
	}
	w.tally.update(func(t *tally) { t.Requests++ })
	switch b.step {
	case stepShow:
		b.step, b.planned = stepBuy, time.Now()
		return true
	case stepPath:
		b.Path, b.step = string(jsonValue(resp.body, "path")), stepBuy
		return true
	case stepBuy:
		if !b.accepted {
			b.accepted = true
			w.tally.update(func(t *tally) {
				t.Accepted++
				record(t.accept, took)
			})
		}
		return w.handleState(b, resp, took)
	case stepPoll:
		return w.handleState(b, resp, took)
	case stepPay:
		b.order, b.step = string(jsonValue(resp.body, "payment_id")), stepConfirm
		return true
	default: // confirmed
		w.tally.update(func(t *tally) { t.Paid++ })
		return false
	}
}

// handleList counts a list that arrived as expected. Its content was checked before the turn.
func (w *worker) handleList(resp response, took time.Duration) {
	if len(resp.body) == 0 || resp.encoding != w.t.expected.Encoding {
		w.countFailure("not the page")
		return
	}
	w.tally.update(func(t *tally) {
		t.Requests++
		t.Pages++
		record(t.page, took)
	})
}

// handleState handles the state of the buyer's ticket.
func (w *worker) handleState(b *buyer, resp response, took time.Duration) (more bool) {
	state := string(jsonValue(resp.body, "state"))
	ms, _ := parseNumber(jsonValue(resp.body, "next_poll_ms"))
	if state == "sold_out" && ms > 0 { // of the sale; the result of a ticket is final
		state = "none"
	}
	switch state {
	case "queued":
		if b.index%100 < w.t.Poll {
			w.schedule(b, stepPoll, time.Duration(max(10, ms))*time.Millisecond)
		}
	case "none":
		if b.accepted {
			w.countFailure("ticket forgotten")
		} else if w.t.plan.strangers {
			w.tally.update(func(t *tally) {
				t.Known++
				t.outcomes[state]++
				record(t.known, took)
			})
		}
	case "ordered", "sold_out", "closed", "invalid":
		w.tally.update(func(t *tally) {
			t.Known++
			t.outcomes[state]++
			record(t.known, took)
		})
		if state == "ordered" && b.pays(w.t.Pay) {
			b.order, b.step = string(jsonValue(resp.body, "order_id")), stepPay
			return true
		}
	default:
		w.countFailure("unknown state")
	}
	return false
}

// handleRefusal counts a refusal. Depending on the code and the plan the buyer tries again.
func (w *worker) handleRefusal(b *buyer, resp response, code string, took, sent time.Duration) (more bool) {
	if code == "" || resp.status >= 500 && code != "busy" {
		return w.handleFault(b, strconv.Itoa(resp.status)+" "+code, false)
	}
	w.tally.update(func(t *tally) {
		t.Requests++
		t.Refused++
		t.refused[code]++
		record(t.refusal, took)
		record(t.sent, sent)
	})
	switch {
	case code == "sold_out" && b.unanswered && b.step == stepBuy:
		b.step = stepPoll // the click without a response may have got a unit
		return true
	case code == "bad_path" && w.t.plan.retry && b.step == stepBuy:
		b.Path = ""
		w.schedule(b, w.t.pathStep(), 100*time.Millisecond)
	case code == "busy" || code == "too_many" || code == "not_started":
		// A buyer with a ticket keeps asking for the result. The others retry if the plan says so.
		if b.step < stepList && (w.t.plan.retry || b.step > stepBuy) {
			next := b.step
			if next == stepPath {
				next = w.t.pathStep() // the captcha was used up
			}
			w.schedule(b, next, max(100*time.Millisecond, resp.retryAfter))
		}
	}
	return false
}

// handleFault counts a request without a valid response. It may be repeated: buying twice is safe.
func (w *worker) handleFault(b *buyer, kind string, impatient bool) (more bool) {
	b.unanswered = b.unanswered || b.step == stepBuy
	if impatient && kind == "timeout" {
		w.tally.update(func(t *tally) { t.Aborted++ })
		w.schedule(b, stepBuy, time.Millisecond)
		return false
	}
	w.countFailure(kind)
	if w.t.plan.retry && b.step <= stepPoll {
		w.schedule(b, b.step, 200*time.Millisecond)
	}
	return false
}

func (w *worker) countFailure(kind string) {
	w.tally.update(func(t *tally) {
		t.Failed++
		t.failed[kind]++
	})
}
