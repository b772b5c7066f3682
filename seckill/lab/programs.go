package lab

import "embed"

// ProgramInfo is a strategy as a program, in the language in which users of the lab write their own.
type ProgramInfo struct {
	Name     string `json:"name"`     // of the strategy
	Language string `json:"language"` // lua or sql
	Source   string `json:"source"`
	Wrong    string `json:"wrong"` // oversold, unsold, duplicates, lost, or "", as the strategy
	Kind     string `json:"kind"`  // of the race that shows it, as in Verdict.Kind; "" for a right strategy
}

// programKinds lists the kind of race in which each wrong strategy goes wrong.
var programKinds = map[string]string{
	"read-then-write": LostUpdate,
	"mutex":           LostUpdate,
	"optimistic":      StaysUnsold,
	"guard":           DoubleDelivery,
	"guard-window":    DoubleDelivery,
	"redis-get-decr":  CheckThenAct,
	"redis-decr":      StaysUnsold,
	"redis-lock":      LostUpdate,
	"buckets":         StaysUnsold,
	"refill-incr":     StaysUnsold,
	"refill-set-one":  StaysUnsold,
	"lua-channel":     LostPromise,
}

// sqlKinds lists those that differ in SQL: its statements cannot keep what they have read.
var sqlKinds = map[string]string{"read-then-write": CheckThenAct}

//go:embed programs
var programFiles embed.FS

// Programs returns every strategy but the shop as a program in Lua, in the order of the lessons, and behind it
// in SQL where it fits.
func Programs() []ProgramInfo {
	var infos []ProgramInfo
	for _, s := range specs {
		for _, language := range []string{Lua, SQL} {
			text, err := programFiles.ReadFile("programs/" + s.name + "." + language)
			if err != nil {
				continue // a test checks that each strategy but the shop has a program in Lua
			}
			kind := programKinds[s.name]
			if other := sqlKinds[s.name]; language == SQL && other != "" {
				kind = other
			}
			infos = append(infos, ProgramInfo{s.name, language, string(text), s.wrong, kind})
		}
	}
	return infos
}

// programOf returns the program of a strategy in Lua.
func programOf(name string) (source string, err error) {
	text, err := programFiles.ReadFile("programs/" + name + ".lua")
	return string(text), err
}
