package lab_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"miaosha/seckill/lab"
	"miaosha/seckill/lab/exercises"
	"miaosha/seckill/lab/experiments"
)

// Each field of a program's result may be as long as the program likes: the answer stays small, says what was left out, and can still be
// read. The test fills every field of the types there are, so it fills a new field, too.
func TestBoundedResults(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 600} {
		for _, text := range []string{strings.Repeat("x", 5000), strings.Repeat("长", 5000), strings.Repeat("<\x01\"", 2000), "\xff\xfe"} {
			for _, v := range []any{new(lab.Result), new(exercises.Result), new(lab.Recording), new(experiments.Result), new(experiments.WithoutResult)} {
				assign(reflect.ValueOf(v).Elem(), text, n, 0)
				raw, cut, err := lab.Bounded(v, 64<<10)
				if err != nil || len(raw) > 64<<10 || len(text) > 10 && !cut {
					t.Errorf("%T with %d elements: %d bytes, cut %v, %v", v, n, len(raw), cut, err)
				}
				again := reflect.New(reflect.TypeOf(v).Elem()).Interface()
				if err := json.Unmarshal(raw, again); err != nil {
					t.Errorf("%T with %d elements cannot be read: %v", v, n, err)
				}
			}
		}
	}
	raw, cut, err := lab.Bounded(lab.Result{Strategy: "guard", Error: "it failed"}, 64<<10)
	if whole, _ := json.Marshal(lab.Result{Strategy: "guard", Error: "it failed"}); err != nil || cut || string(raw) != string(whole) {
		t.Errorf("a small result: %s, cut %v, %v", raw, cut, err)
	}
	raw, cut, err = lab.Bounded(lab.Result{Error: strings.Repeat("长", 5000)}, 64<<10)
	if want := fmt.Sprint("… （其余 ", 5000-4096/3, " 个字符未显示 / ", 5000-4096/3, " more characters are not shown）"); err != nil || !cut || !strings.Contains(string(raw), want) {
		t.Errorf("a long error: %.100s…, cut %v, %v; want it to end with %s", raw, cut, err, want)
	}
}

// assign sets all fields of v: texts to the text, lists and maps to n elements.
func assign(v reflect.Value, text string, n, depth int) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		assign(v.Elem(), text, n, depth)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				assign(v.Field(i), text, n, depth+1)
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Struct { // lists in lists would fill the memory of the test
			n = min(n, 30/(1+depth))
		}
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			assign(v.Index(i), text, min(n, 4), depth+1)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for i := range min(n, 8) {
			e := reflect.New(v.Type().Elem()).Elem()
			assign(e, text, min(n, 4), depth+1)
			v.SetMapIndex(reflect.ValueOf(fmt.Sprint(i, text)), e)
		}
	}
}
