package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"miaosha/seckill/backend"
	"miaosha/seckill/lab"
	"miaosha/seckill/lab/boundary"
	"miaosha/seckill/lab/program"
)

// RunProgram runs a program of the lab and ends the process, if the lab has started this process for one.
func RunProgram() {
	if os.Getenv(boundary.Child) != "" {
		boundary.RunChild()
	}
}

// judgeProgram judges a program in Lua or SQL.
func (l LabCompare) judgeProgram(ctx context.Context, env Env, plan lab.Plan) error {
	if len(l.Strategies) > 0 || l.Outside != "" {
		return exitError{exitUsage,
			errors.New("--mine-file judges your program alone; leave out --strategies and --mine")}
	}
	if err := asFlag(plan.ValidateForProgram()); err != nil {
		return err
	}
	program, err := readProgram(l.Program)
	if err != nil {
		return exitError{exitUsage, err}
	}
	began := time.Now()
	fmt.Fprintf(env.Err, "lab: %s: %s\n", l.Program, planText(plan))
	return env.withLab(ctx, func(s *backend.Stores) error {
		results, err := boundary.Judge(ctx, LabStores(env.Backend, s, env.Schema), program, []lab.Plan{plan},
			labProgress(env.Err))
		if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			return fmt.Errorf(
				"stopped. The program's process is killed, and its database and role are removed; nothing is left behind%s",
				notWritten(l.HTML))
		}
		if err != nil {
			return asFlag(err)
		}
		page := func(w io.Writer) error { return writeLabPage(w, env.Origin, plan, results, began) }
		text := func(w io.Writer) error {
			if err := writeLab(w, plan, results); err != nil {
				return err
			}
			return writeVerdict(w, results[0])
		}
		return env.writeReport(l.HTML, l.JSON, results, page, text)
	})
}

// textOf returns the text of a file without the byte order mark that editors of Windows write in front of UTF-8.
func textOf(file []byte) string { return strings.TrimPrefix(string(file), "\ufeff") }

// readProgram returns the program in a file, whose name ends with its language.
func readProgram(file string) (p program.Program, err error) {
	source, err := os.ReadFile(file)
	if err != nil {
		return p, err
	}
	p = program.Program{Language: strings.TrimPrefix(filepath.Ext(file), "."), Source: textOf(source)}
	if err = p.Validate(); err != nil {
		err = fmt.Errorf("%s: %w", file, err)
	}
	return p, err
}

// kindTexts says what the kinds of a verdict mean.
var kindTexts = map[string]string{
	lab.LostUpdate:     "a lost update: one buyer writes over what another has written, and has not read it",
	lab.CheckThenAct:   "check, then act: the check was true when it was made, and no longer when it counted",
	lab.DoubleDelivery: "double delivery: one buyer has two orders",
	lab.PartialWrite:   "a partial write: a process died between two writes that belong together",
	lab.LostPromise:    "a lost promise: a buyer was told that they had one and has no order",
	lab.DeniedOrder:    "a denied order: a buyer has an order and was refused",
	lab.UnknownOutcome: "an unknown outcome: a lost reply was taken for a failure",
	lab.StaysUnsold:    "an unsold unit: a buyer was refused while a unit was left",
	lab.TooSlow:        "too slow: exact, but short of the target",
	lab.Tampered: "tampered: the program has changed what belongs to the judge, " +
		"or has written orders that no buyer asked for",
	lab.Failed: "the program did not run",
}

// writeVerdict writes what went wrong and the schedule that shows it, one column for each buyer and the state at the
// right.
func writeVerdict(w io.Writer, r lab.Result) error {
	if r.Verdict == nil {
		return nil
	}
	if r.Output != "" {
		fmt.Fprintf(w, "\nThe program printed:\n%s\n", plain(strings.TrimRight(r.Output, "\n")))
	}
	if r.Kind != "" {
		fmt.Fprintf(w, "\n%s: %s\n", r.Kind, kindTexts[r.Kind])
	}
	s := r.Schedule
	if s == nil {
		return nil
	}
	fmt.Fprintf(w, "\nThe shortest schedule that shows it (%d tried): %s, stock %d, %s", s.Tried, s.Clicks, s.Stock,
		count(s.Switches, "switch", "switches"))
	if s.Fault != "" {
		fmt.Fprintf(w, ", fault %s", s.Fault)
	}
	fmt.Fprint(w, "\n\n")
	for i, step := range r.Steps {
		text := plain(step.Text)
		if step.Result != "" {
			text += " -> " + plain(step.Result)
		}
		if step.Line > 0 {
			text = "line " + strconv.Itoa(step.Line) + ": " + text
		}
		mark := ""
		if i == s.Broken {
			mark = "   <- here it goes wrong"
		}
		fmt.Fprintf(w, "%2d %s%s  %-70s  stock %s, orders [%s]%s%s\n", i+1, strings.Repeat("    ", step.Buyer-1),
			clickOf(s.Users, step.Buyer), text,
			step.State.Stock, step.State.Orders, keysText(step.State.Keys), mark)
	}
	return nil
}

// clickOf names the buyer of a click, from 1, and which click it is if the buyer has several.
func clickOf(users []int64, click int) string {
	nth, all := 0, 0
	for i, user := range users {
		if user == users[click-1] {
			all++
			if i < click {
				nth++
			}
		}
	}
	text := fmt.Sprintf("buyer %d", users[click-1])
	if all > 1 {
		text += fmt.Sprintf(", click %d", nth)
	}
	return text
}

// plain shows no control character of a student's text to a terminal, except the end of a line.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}

func keysText(keys map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		fmt.Fprintf(&b, ", %s %s", plain(name), plain(keys[name]))
	}
	return b.String()
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
