// Package exercises has the tasks for students' programs: the ladder, and the programs of courses that are to be
// repaired. A task is a folder with texts in both languages, programs, and the crowds with their targets.
package exercises

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"miaosha/seckill/lab"
	"miaosha/seckill/lab/program"
)

// Text is a text in both languages of the pages.
type Text struct {
	En string `json:"en"`
	Zh string `json:"zh"`
}

// Exercise is a task for a program: a crowd, faults and a target. Exercises are a ladder. Most run the checks of
// earlier ones again, as far as those fit.
type Exercise struct {
	Name string `json:"name"`
	// the letter of the course that teaches Start, as in the course index; "" for the ladder
	By       string          `json:"by"`
	Title    Text            `json:"title"`
	Task     Text            `json:"task"` // paragraphs with an empty line between them; code in backquotes
	Hints    [3]Text         `json:"hints"`
	Start    program.Program `json:"start"`
	Solution program.Program `json:"solution"`
	Why      Text            `json:"why"`    // the solution is right, in three sentences
	Wrong    program.Program `json:"wrong"`  // Start, in an exercise of a course
	Kind     string          `json:"kind"`   // what Wrong does wrong, as in Verdict.Kind
	Checks   []Check         `json:"checks"` // its own first, then those of earlier exercises
}

// Check is one crowd that a program has to serve exactly, and at what cost.
type Check struct {
	Exercise    string   `json:"exercise"` // to which it belongs
	Name        string   `json:"name"`
	Plan        lab.Plan `json:"plan"`
	Nodes       int      `json:"nodes"`         // processes
	Closes      bool     `json:"closes"`        // the sale ends when half of its units are sold
	SQLPerOrder float64  `json:"sql_per_order"` // at most; 0: any number
	Baseline    string   `json:"baseline"`      // the program that is run beside this one; "" for none
	MostLate    int      `json:"most_late"`     // orders, as in Verdict.Late; -1: any number
	Ratio       float64  `json:"ratio"`         // clicks per second, at least, divided by those of the baseline
}

// checkSeconds is the time limit of one run of a check.
const checkSeconds = 20

//go:embed ladder courses
var files embed.FS

// Ladder returns the exercises of the ladder in their order.
func Ladder() []Exercise { return slices.Clone(ladder()) }

// OfCourses returns the algorithms of courses, each to be repaired, in the order of their names.
func OfCourses() []Exercise { return slices.Clone(courses()) }

// All returns both: the ladder first.
func All() []Exercise { return append(Ladder(), OfCourses()...) }

var (
	ladder  = sync.OnceValue(func() []Exercise { return embedded("ladder") })
	courses = sync.OnceValue(func() []Exercise { return embedded("courses") })
)

func embedded(root string) []Exercise {
	all, err := readExercises(files, root)
	if err != nil {
		panic("lab: " + err.Error()) // the files are in the binary, and a test reads them
	}
	return all
}

// readExercises reads a folder for each exercise: exercise.json, start.lua, solution.lua, wrong.lua, and the texts of
// task.md and task.zh.md. Its name is NN-name on the ladder. That of a course begins with the course's letter, and has
// no wrong.lua.
func readExercises(files fs.FS, root string) (all []Exercise, err error) {
	folders, err := fs.ReadDir(files, root)
	if err != nil {
		return nil, err
	}
	own := map[string][]Check{}
	for _, folder := range folders {
		e, err := readExercise(files, root+"/"+folder.Name(), own)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", folder.Name(), err)
		}
		all = append(all, e)
	}
	return all, nil
}

// readExercise reads one folder. own has the checks of the exercises before it, by name; it adds those of this one.
func readExercise(files fs.FS, folder string, own map[string][]Check) (e Exercise, err error) {
	var settings struct {
		Kind   string
		Again  []string // earlier exercises whose checks are run again
		Before []string
		Seats  bool
		Checks []struct {
			Name          string
			Buyers, Stock int
			DoubleClicks  int `json:"double_clicks"`
			Nodes         int
			Faults        []string
			SQLPerOrder   float64 `json:"sql_per_order"`
			Baseline      string
			Ratio         float64
			Closes        bool
			MostLate      *int `json:"most_late"`
		}
	}
	read := func(name string) string {
		text, readErr := fs.ReadFile(files, folder+"/"+name)
		if err == nil {
			err = readErr
		}
		return string(text)
	}
	lua := func(name string) program.Program {
		return program.Program{Language: program.Lua, Source: read(name)}
	}
	text, en, zh := read("exercise.json"), read("task.md"), read("task.zh.md")
	e.Name = path.Base(folder)
	e.Start, e.Solution = lua("start.lua"), lua("solution.lua")
	if prefix, name, _ := strings.Cut(e.Name, "-"); path.Dir(folder) == "courses" {
		e.By, e.Wrong = strings.ToUpper(prefix), e.Start
	} else {
		e.Name, e.Wrong = name, lua("wrong.lua")
	}
	if err != nil {
		return e, err
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&settings); err != nil {
		return e, err
	}
	if err := e.readTexts(en, zh); err != nil {
		return e, err
	}
	e.Kind = settings.Kind
	for _, c := range settings.Checks {
		late := -1
		if c.MostLate != nil {
			late = *c.MostLate
		}
		e.Checks = append(e.Checks, Check{
			Exercise: e.Name, Name: c.Name, SQLPerOrder: c.SQLPerOrder, MostLate: late, Baseline: c.Baseline,
			Ratio: c.Ratio, Nodes: c.Nodes, Closes: c.Closes,
			Plan: lab.Plan{Buyers: c.Buyers, Stock: c.Stock, DoubleClicks: c.DoubleClicks, Faults: c.Faults,
				Seconds: checkSeconds, Nodes: c.Nodes, Closes: c.Closes, CrowdOnly: c.Closes, Seats: settings.Seats,
				Outlasts: slices.Contains(c.Faults, lab.RedisAway), Before: settings.Before}})
	}
	own[e.Name] = slices.Clone(e.Checks)
	for _, earlier := range settings.Again {
		checks, known := own[earlier]
		if !known || earlier == e.Name {
			return e, fmt.Errorf("there is no earlier exercise %q", earlier)
		}
		e.Checks = append(e.Checks, checks...)
	}
	return e, nil
}

// readTexts takes the title, the task, the hints and the reason from the texts of both languages. Each has a title and
// four further headings in this order.
func (e *Exercise) readTexts(en, zh string) error {
	for _, one := range []struct {
		text string
		of   func(*Text) *string
	}{{en, func(t *Text) *string { return &t.En }}, {zh, func(t *Text) *string { return &t.Zh }}} {
		title, rest, _ := strings.Cut(one.text, "\n")
		parts := strings.Split("\n"+rest, "\n## ")
		if !strings.HasPrefix(title, "# ") || len(parts) != 5 {
			return fmt.Errorf("a task has a title, a text, three hints and a reason, not %d parts", len(parts))
		}
		*one.of(&e.Title), *one.of(&e.Task) = title[2:], strings.TrimSpace(parts[0])
		for i, to := range []*Text{&e.Hints[0], &e.Hints[1], &e.Hints[2], &e.Why} {
			_, body, _ := strings.Cut(parts[i+1], "\n") // without its heading
			*one.of(to) = strings.TrimSpace(body)
		}
	}
	return nil
}
