package operator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"miaosha/seckill/backend"
	"miaosha/seckill/lab"
	"miaosha/seckill/lab/exercises"
	"miaosha/seckill/lab/program"
)

// LabGrade judges students' programs by the exercises of the lab.
type LabGrade struct {
	Dir         string   `arg:"" help:"The folder with the programs, named by exercise: 03-double-click.lua or double-click.sql. Each folder in it belongs to one student."`
	JSON        bool     `name:"json" help:"Print only the results, as JSON. They are in the files either way."`
	Seeds       []uint64 `default:"1,2,3" placeholder:"LIST" help:"Seeds of the crowds, separated by commas."`
	HiddenSeeds string   `placeholder:"FILE" help:"More seeds, one per line. The results do not show them."`
}

// resultsName is the file that a test runner of Exercism writes.
const resultsName = "results.json"

// graded is its content, in version 2 of that shape.
type graded struct {
	Version int          `json:"version"`
	Status  string       `json:"status"`  // pass, fail, or error: no program could be judged
	Message *string      `json:"message"` // of an error
	Tests   []gradedTest `json:"tests"`
}

type gradedTest struct {
	Name    string  `json:"name"` // exercise and seed
	Status  string  `json:"status"`
	Message *string `json:"message"` // nil for a pass
}

// The states of both.
const passed, failed, notJudged = "pass", "fail", "error"

// gradedFolder is the outcome of one folder.
type gradedFolder struct {
	Folder string `json:"folder"` // "." for Dir itself
	graded
}

// gradeSeed is a seed with its name.
type gradeSeed struct {
	name  string
	value uint64
}

// Run grades one folder after the other, and writes the results of each when it has all of them. A program that fails
// is a result, not an error.
func (g LabGrade) Run(ctx context.Context, env Env) error {
	seeds, err := g.seeds()
	if err != nil {
		return err
	}
	folders, err := foldersIn(g.Dir)
	if err != nil {
		return exitError{exitUsage, err}
	}
	fmt.Fprintf(env.Err, "lab: %d folders in %s, %d seeds\n", len(folders), absolute(g.Dir), len(seeds))
	return env.withLab(ctx, func(s *backend.Stores) error {
		var all []gradedFolder
		for _, folder := range folders {
			result, err := gradeFolder(ctx, LabStores(env.Backend, s, env.Schema), filepath.Join(g.Dir, folder), seeds,
				func(t gradedTest) { fmt.Fprintf(env.Err, "%s: %s: %s\n", plain(folder), plain(t.Name), t.Status) })
			if ctx.Err() != nil {
				return fmt.Errorf(
					"stopped: %d of %d folders were graded, and have their %s. Nothing else is left behind", len(all),
					len(folders), resultsName)
			}
			if err != nil {
				return err
			}
			if err := result.write(filepath.Join(g.Dir, folder, resultsName)); err != nil {
				return err
			}
			all = append(all, gradedFolder{folder, result})
		}
		return env.writeReport("", g.JSON, all, nil, func(w io.Writer) error { return writeGraded(w, all) })
	})
}

// seeds returns the open seeds and then the hidden ones, which have numbers for names.
func (g LabGrade) seeds() (all []gradeSeed, err error) {
	for _, seed := range g.Seeds {
		all = append(all, gradeSeed{fmt.Sprintf("seed %d", seed), seed})
	}
	var text []byte
	if g.HiddenSeeds != "" {
		if text, err = os.ReadFile(g.HiddenSeeds); err != nil {
			return nil, exitError{exitUsage, fmt.Errorf("--hidden-seeds: %w", err)}
		}
	}
	for i, word := range strings.Fields(textOf(text)) {
		seed, err := strconv.ParseUint(word, 10, 64)
		if err != nil {
			return nil, exitError{exitUsage, fmt.Errorf("--hidden-seeds: number %d in %s is not a seed",
				i+1, g.HiddenSeeds)}
		}
		all = append(all, gradeSeed{fmt.Sprintf("hidden seed %d", i+1), seed})
	}
	if len(all) == 0 {
		return nil, exitError{exitUsage, errors.New("--seeds: at least one, there or in --hidden-seeds")}
	}
	return all, nil
}

// foldersIn returns "." if the folder has programs, and the names of the folders in it.
func foldersIn(dir string) (folders []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	programs, err := programsIn(dir)
	if err != nil {
		return nil, err
	}
	if len(programs) > 0 {
		folders = append(folders, ".")
	}
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			folders = append(folders, e.Name())
		}
	}
	if len(folders) == 0 {
		return nil, fmt.Errorf("%s has no program (*.lua or *.sql) and no folder of a student", dir)
	}
	return folders, nil
}

// programsIn returns the names of the programs in a folder. It leaves out hidden files, such as those that macOS adds
// to an archive.
func programsIn(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); e.Type().IsRegular() && !strings.HasPrefix(e.Name(), ".") &&
			(ext == "."+program.Lua || ext == "."+program.SQL) {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// gradeFolder judges the programs of one folder with each seed. An error comes from the stores or from ctx.
func gradeFolder(
	ctx context.Context, s lab.Stores, dir string, seeds []gradeSeed, report func(gradedTest),
) (result graded, err error) {
	result = graded{Version: 2, Tests: []gradedTest{}}
	names, err := programsIn(dir)
	if err != nil {
		return result, err
	}
	for _, name := range names {
		exercise, program, problem := readExercise(filepath.Join(dir, name))
		for _, seed := range seeds {
			test := gradedTest{Name: fmt.Sprintf("%s, %s", cmp.Or(exercise.Name, name), seed.name), Status: notJudged}
			if problem != nil {
				test.Message = new(problem.Error())
			} else if err := judgeTest(ctx, s, exercise, program, seed.value, &test); err != nil {
				return result, err
			}
			result.Tests = append(result.Tests, test)
			report(test)
		}
	}
	result.conclude()
	return result, nil
}

// conclude derives the status from those of the tests.
func (g *graded) conclude() {
	is := func(status string) func(gradedTest) bool {
		return func(t gradedTest) bool { return t.Status == status }
	}
	switch {
	case len(g.Tests) == 0:
		g.Status, g.Message = notJudged, new("there is no program (*.lua or *.sql) in this folder")
	case !slices.ContainsFunc(g.Tests, func(t gradedTest) bool { return t.Status != notJudged }):
		g.Status, g.Message = notJudged, g.Tests[0].Message
	case slices.ContainsFunc(g.Tests, func(t gradedTest) bool { return !is(passed)(t) }):
		g.Status = failed
	default:
		g.Status = passed
	}
}

// number is what may be in front of an exercise's name.
var number = regexp.MustCompile(`^\d+-`)

// readExercise reads a program, and finds its exercise by the file's name. No error has the path.
func readExercise(file string) (e exercises.Exercise, p program.Program, err error) {
	name, ext, _ := strings.Cut(filepath.Base(file), ".")
	name = number.ReplaceAllString(name, "")
	all := exercises.Ladder()
	i := slices.IndexFunc(all, func(e exercises.Exercise) bool { return e.Name == name })
	if i < 0 {
		names := make([]string, len(all))
		for i, e := range all {
			names[i] = e.Name
		}
		return e, p, fmt.Errorf("the file is named by its exercise: %w", notKnown(name, names))
	}
	f, err := os.Open(file)
	if err != nil {
		return all[i], p, errors.New("the file cannot be read")
	}
	defer f.Close()
	source, err := io.ReadAll(io.LimitReader(f, program.MaxSource+1))
	if err != nil {
		return all[i], p, errors.New("the file cannot be read")
	}
	p = program.Program{Language: ext, Source: textOf(source)}
	return all[i], p, p.Validate()
}

// judgeTest judges a program with one seed.
func judgeTest(
	ctx context.Context, s lab.Stores, e exercises.Exercise, p program.Program, seed uint64, test *gradedTest,
) error {
	result, err := exercises.Judge(ctx, s, e, p, seed, nil)
	if err != nil {
		return fmt.Errorf("%s: %w", test.Name, err)
	}
	if test.Status = passed; result.Solved {
		return nil
	}
	missed := result.Checks[len(result.Checks)-1]
	test.Status, test.Message = failed, new(fmt.Sprintf("%s, %s: %s (%s)", missed.Exercise, missed.Name,
		missed.Message.En, missed.Kind))
	if r := missed.Result; missed.Kind == lab.Failed && r.Verdict != nil {
		test.Status, test.Message = notJudged, new(
			fmt.Sprintf("%s, %s: %s (%s)", missed.Exercise, missed.Name, r.Error, r.Problem))
	}
	return nil
}

// write replaces the file in one step: a reader sees the old results or the new ones. It follows no link that a student
// may have put there.
func (g graded) write(file string) error {
	text, err := json.MarshalIndent(g, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(file), resultsName+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // does nothing after the rename
	_, err = f.Write(append(text, '\n'))
	if err := errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), file)
}

func writeGraded(w io.Writer, all []gradedFolder) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "folder\tstatus\tpassed\tfirst that did not")
	for _, f := range all {
		n, first := 0, ""
		for _, t := range f.Tests {
			if t.Status == passed {
				n++
			} else if first == "" {
				first = t.Name + ": " + *t.Message
			}
		}
		if first == "" && f.Message != nil {
			first = *f.Message
		}
		fmt.Fprintf(table, "%s\t%s\t%d of %d\t%s\n", plain(f.Folder), f.Status, n, len(f.Tests),
			plain(strings.SplitN(first, "\n", 2)[0]))
	}
	return table.Flush()
}
