package strategies

import (
	"embed"

	"miaosha/seckill/lab"
	"miaosha/seckill/lab/program"
)

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
	"read-then-write": lab.LostUpdate,
	"mutex":           lab.LostUpdate,
	"optimistic":      lab.StaysUnsold,
	"guard":           lab.DoubleDelivery,
	"guard-window":    lab.DoubleDelivery,
	"redis-get-decr":  lab.CheckThenAct,
	"redis-decr":      lab.StaysUnsold,
	"redis-lock":      lab.LostUpdate,
	"buckets":         lab.StaysUnsold,
	"refill-incr":     lab.StaysUnsold,
	"refill-set-one":  lab.StaysUnsold,
	"lua-channel":     lab.LostPromise,
}

// sqlKinds lists those that differ in SQL: its statements cannot keep what they have read.
var sqlKinds = map[string]string{"read-then-write": lab.CheckThenAct}

//go:embed programs
var programFiles embed.FS

// Programs returns every strategy but the shop as a program in Lua, in the order of the lessons, and behind it
// in SQL where it fits.
func Programs() []ProgramInfo {
	var infos []ProgramInfo
	for _, s := range specs {
		for _, language := range []string{program.Lua, program.SQL} {
			text, err := programFiles.ReadFile("programs/" + s.Name + "." + language)
			if err != nil {
				continue // a test checks that each strategy but the shop has a program in Lua
			}
			kind := programKinds[s.Name]
			if other := sqlKinds[s.Name]; language == program.SQL && other != "" {
				kind = other
			}
			infos = append(infos, ProgramInfo{s.Name, language, string(text), s.Wrong, kind})
		}
	}
	return infos
}

// Program returns the program of a strategy in Lua.
func Program(name string) (source string, err error) {
	text, err := programFiles.ReadFile("programs/" + name + ".lua")
	return string(text), err
}
