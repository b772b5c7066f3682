package trace

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/time/rate"

	"miaosha/seckill"
	"miaosha/seckill/gate"
	"miaosha/seckill/purpose"
	"miaosha/seckill/rounds"
)

const (
	witnessEvery = 500 * time.Millisecond
	witnessLimit = 1500 * time.Millisecond // for the answers to a question
	livesFor     = 3 * time.Second         // a process that was seen so lately lives, and is expected to answer
	roundLimit   = 5 * time.Second         // for one round: a Redis that hangs ends the round
	leaveLimit   = 2 * time.Second         // for the last word of a process that stops
	callsShown   = 8                       // sums and addresses of a user, the newest
	clockError   = 20 * time.Millisecond   // a smaller difference between the clocks may be one of the measuring
)

// Witness answers what is asked about tickets. The processes of a shop know no addresses of each other, so they ask
// over Redis: twice a second each shows that it lives, and looks for questions.
type Witness struct {
	trace   *Trace
	gate    *gate.Gate
	clock   *gate.Clock
	name    string
	secrets []string // the fingerprints of this process's secrets
	log     *slog.Logger
	once    rate.Sometimes // at most one fault a second is logged
	rounds  *rounds.Rounds
}

// NewWitness returns the Witness of a process with this secret. It does nothing until Join and Run.
func NewWitness(t *Trace, shared seckill.Shared, secret []byte, log *slog.Logger) *Witness {
	return &Witness{trace: t, gate: shared.Gate.Background(), clock: shared.Clock, name: shared.Name,
		secrets: []string{fingerprint(secret)},
		log:     log, once: rate.Sometimes{Interval: time.Second}, rounds: rounds.New()}
}

// logFault logs a fault that the next round tries again.
func (w *Witness) logFault(ctx context.Context, doing string, err error) {
	if err != nil && ctx.Err() == nil {
		w.once.Do(func() { w.log.Warn("a store did not answer", "doing", doing, "err", err) })
	}
}

// fingerprint tells one secret from another. No one can find the secret from it.
func fingerprint(secret []byte) string {
	return hex.EncodeToString(purpose.Fingerprint.Key(secret)[:12])
}

// Join shows the other processes of the shop that this one lives, from before its first request until Run ends. It
// returns an error if a living process shares no secret with this one: each would refuse the addresses that buyers have
// from the other.
func (w *Witness) Join(ctx context.Context) error {
	now, err := w.gate.Now(ctx)
	if err != nil {
		return fmt.Errorf("read the clock of Redis: %w", err)
	}
	shown, err := w.gate.ShowSecrets(ctx, w.name, w.secrets, now.Add(-livesFor), now)
	if err != nil {
		return err
	}
	for name, theirs := range shown {
		if !slices.ContainsFunc(theirs, func(f string) bool { return slices.Contains(w.secrets, f) }) {
			w.gate.HideSecrets(ctx, w.name, w.secrets) // or it is forgotten in a minute
			return fmt.Errorf(
				"--secret (MIAOSHA_SECRET): the process %s of this shop has another one: give every process the same. If it has just been stopped, start again in %v",
				name, livesFor)
		}
	}
	return nil
}

// Question asks every process what it remembers of a ticket. Sale and User are 0 if they are not known: then the steps
// before the ticket are not found.
type Question struct {
	ID     string `json:"id"` // set by Ask
	Ticket string `json:"ticket"`
	Sale   int64  `json:"sale"`
	User   int64  `json:"user"`
}

// Step is one step of a ticket, as a process or Postgres remembers it.
type Step struct {
	Name    string         `json:"name"`
	At      time.Time      `json:"at"`      // when it was done; of a click, when it came
	Process string         `json:"process"` // or postgres
	TookMS  float64        `json:"took_ms,omitempty"`
	Detail  map[string]any `json:"detail,omitempty"`
}

// Answer is what one process remembers.
type Answer struct {
	Sale  int64  `json:"sale"` // 0 if it does not know the ticket
	Steps []Step `json:"steps"`
}

// Run answers questions about tickets until ctx ends.
func (w *Witness) Run(ctx context.Context) error {
	process := w.name + " " + strconv.FormatInt(time.Now().UnixMilli(), 10)
	w.logFault(ctx, "forget processes", w.gate.ForgetProcesses(ctx, w.clock.Now()))
	answered := map[string]bool{} // the questions of the last round
	w.rounds.Run(ctx, roundLimit, rounds.Every(witnessEvery), func(ctx context.Context) {
		now := w.clock.Now()
		_, err := w.gate.ShowSecrets(ctx, w.name, w.secrets, now, now)
		w.logFault(ctx, "show the fingerprint of the secret", err)
		questions, err := w.gate.Attend(ctx, process, now)
		if w.logFault(ctx, "look for questions", err); err != nil {
			return
		}
		seen := make(map[string]bool, len(questions))
		for _, text := range questions {
			if seen[text] = true; !answered[text] {
				w.answer(ctx, process, text)
			}
		}
		answered = seen
	})
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveLimit)
	defer cancel()
	w.gate.HideSecrets(last, w.name, w.secrets) // or it is forgotten in a minute
	return nil
}

// answer answers one question. A malformed one was not asked by a process of this version.
func (w *Witness) answer(ctx context.Context, process, question string) {
	var q Question
	if json.Unmarshal([]byte(question), &q) != nil {
		return
	}
	text, err := json.Marshal(w.remember(q))
	if err == nil {
		err = w.gate.Answer(ctx, q.ID, process, string(text))
	}
	w.logFault(ctx, "answer a question", err)
}

// remember returns what this process remembers of a ticket. The times are by the clock of Redis if this machine's clock
// is wrong.
func (w *Witness) remember(q Question) (a Answer) {
	calls := w.trace.ofUser(q.Sale, q.User)
	batches := w.trace.ofTicket(q.Ticket)
	for _, r := range slices.Concat(calls[max(0, len(calls)-callsShown):], batches) {
		a.Steps = append(a.Steps, r.steps(q.Ticket)...)
	}
	if len(batches) > 0 {
		a.Sale = batches[0].sale
	}
	offset := apart(w.clock.Offset())
	for i := range a.Steps {
		a.Steps[i].At, a.Steps[i].Process = a.Steps[i].At.Add(offset).UTC(), w.name
	}
	return a
}

// apart returns by how much the clocks of Redis and of this machine differ, 0 if the measuring alone may show that
// much: the steps of a process would go before those that came before them.
func apart(offset, within time.Duration) time.Duration {
	if offset.Abs() < max(clockError, within) {
		return 0
	}
	return offset
}

// steps returns the steps of a record, in their order.
func (r traced) steps(ticket string) []Step {
	at := time.Unix(0, r.at)
	one := func(name string, detail map[string]any) []Step {
		return []Step{{Name: name, At: at, TookMS: ms(r.took), Detail: detail}}
	}
	switch r.kind {
	case tracedDraw:
		return one("sum_drawn", nil)
	case tracedSum:
		return one("sum_solved", nil)
	case tracedAddress:
		return one("address", nil)
	case tracedClaim:
		return one("claimed", map[string]any{"tickets": r.in})
	case tracedSettle:
		return one("settled", map[string]any{"tickets": r.in, "ordered": r.out, "lock_ms": ms(r.waited)})
	case tracedAck:
		return one("acknowledged", map[string]any{"tickets": r.in})
	case tracedTell:
		return one("told", map[string]any{"tickets": r.in, "streams": r.out})
	}
	asked, entry := at.Add(-r.took), ""
	entry, _ = gate.EntryID(ticket)
	return []Step{
		{Name: "click", At: asked.Add(-r.waited)},
		{Name: "batch", At: asked, TookMS: ms(r.waited), Detail: map[string]any{"clicks": r.in}},
		{Name: "granted", At: at, TookMS: ms(r.took), Detail: map[string]any{"granted": r.out, "clicks": r.in}},
		{Name: "journaled", At: at, Detail: map[string]any{"entry": entry, "tickets": r.out}},
		{Name: "queued", At: at.Add(r.queued), TookMS: ms(r.queued), Detail: map[string]any{"ahead": r.ahead}},
	}
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// Witnessed is what the processes of a shop remember of a ticket.
type Witnessed struct {
	Sale    int64 // 0 if no process knows the ticket
	Steps   []Step
	Missing []Missing // processes that lived then, and did not answer
}

// Missing is a process that did not answer.
type Missing struct {
	Process  string    `json:"process"`
	Started  time.Time `json:"started"`
	LastSeen time.Time `json:"last_seen"`
}

// Ask asks every process that lived at since or later, and waits for the answers of those that live, but not long.
func Ask(ctx context.Context, g *gate.Gate, q Question, since time.Time) (w Witnessed, err error) {
	processes, now, err := g.Processes(ctx, since)
	if err != nil {
		return w, err
	}
	var living []string
	for _, p := range processes {
		if now.Sub(p.LastSeen) < livesFor {
			living = append(living, p.Name)
		}
	}
	answers, err := ask(ctx, g, q, now, living)
	if err != nil {
		return w, err
	}
	for _, p := range processes {
		if text := answers[p.Name]; text != "" {
			var a Answer
			if err := json.Unmarshal([]byte(text), &a); err != nil {
				return w, fmt.Errorf("the answer of process %s: %w", p.Name, err)
			}
			w.Sale, w.Steps = max(w.Sale, a.Sale), append(w.Steps, a.Steps...)
			continue
		}
		name, started, _ := strings.Cut(p.Name, " ")
		ms, _ := strconv.ParseInt(started, 10, 64)
		w.Missing = append(w.Missing, Missing{name, time.UnixMilli(ms).UTC(), p.LastSeen.UTC()})
	}
	return w, nil
}

// ask puts the question and collects the answers of these processes.
func ask(
	ctx context.Context, g *gate.Gate, q Question, now time.Time, living []string,
) (answers map[string]string, err error) {
	if len(living) == 0 {
		return nil, nil
	}
	q.ID = uuid.NewString()
	text, err := json.Marshal(q)
	if err == nil {
		err = g.Ask(ctx, string(text), now)
	}
	if err != nil {
		return nil, fmt.Errorf("ask the processes: %w", err)
	}
	defer g.Withdraw(context.WithoutCancel(ctx), q.ID, string(text)) // or it expires
	waiting, cancel := context.WithTimeout(ctx, witnessLimit)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for answers = map[string]string{}; len(answers) < len(living); {
		select {
		case <-tick.C:
		case <-waiting.Done():
			return answers, nil
		}
		got, err := g.Answers(ctx, q.ID, living)
		if err != nil {
			return nil, err
		}
		for i, a := range got {
			if a != "" {
				answers[living[i]] = a
			}
		}
	}
	return answers, nil
}
