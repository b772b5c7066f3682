package web

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"time"

	"miaosha/seckill/typed"
)

// number is a whole number of a body whose range is checked. One beyond int64 is read as the first or the last int64,
// so that the refusal says the range; JavaScript sends 1e+30.
type number int64

func (n *number) UnmarshalJSON(raw []byte) error {
	if string(raw) == "null" {
		return nil
	}
	v, err := strconv.ParseInt(string(raw), 10, 64)
	*n = number(v)
	if err == nil || errors.Is(err, strconv.ErrRange) {
		return nil
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	switch {
	case err != nil && !errors.Is(err, strconv.ErrRange):
		return &json.UnmarshalTypeError{Value: "no number"}
	case f >= math.MaxInt64:
		*n = math.MaxInt64
	case f <= math.MinInt64:
		*n = math.MinInt64
	default:
		return &json.UnmarshalTypeError{Value: "number " + string(raw)}
	}
	return nil
}

// inputs collects the wrong fields of a body that was decoded.
type inputs struct{ wrong []error }

// time returns a required time, as readTime does.
func (f *inputs) time(name, text string) time.Time {
	if text == "" {
		f.wrong = append(f.wrong, fieldError{name, "required"})
		return time.Time{}
	}
	at, ok := readTime(text)
	if !ok {
		f.wrong = append(f.wrong, fieldError{name, "form"})
	}
	return at
}

// reads replaces a text by the spelling that the shop stores. A text with a character that has no place in it stays as
// it is, and is wrong for this reason.
func (f *inputs) reads(name, reason string, text *string, read func(string) (string, error)) {
	got, err := read(*text)
	if found, ok := errors.AsType[typed.CharError](err); ok {
		f.wrong = append(f.wrong, charError{fieldError{name, reason}, found})
		return
	}
	*text = got
}

// maxAnswer is the number of bytes of an answer to a sum that are read: a whole sum in wide digits has fewer.
const maxAnswer = 200

// sum reads the answer to a sum. One that is no number is wrong, and uses up no sum. No answer is none.
func (f *inputs) sum(answer *string) {
	if *answer == "" {
		return
	}
	if len(*answer) > maxAnswer {
		f.also(fieldError{"captcha", "form"})
		return
	}
	if f.reads("captcha", "form", answer, typed.Sum); *answer == "" {
		f.wrong = append(f.wrong, fieldError{"captcha", "required"})
	}
}

// also adds what other checks of the body refuse.
func (f *inputs) also(errs ...error) { f.wrong = append(f.wrong, errs...) }

// filled returns an error for a required field that is empty.
func filled(name, text string) error {
	if text == "" {
		return fieldError{name, "required"}
	}
	return nil
}

func (f *inputs) err() error { return errors.Join(f.wrong...) }

// needed returns the value of a required field.
func needed[T any](f *inputs, name string, value *T) (v T) {
	if value == nil {
		f.wrong = append(f.wrong, fieldError{name, "required"})
		return v
	}
	return *value
}

// readTime returns a time in RFC 3339. It has a year of four digits in every zone, or no answer could show it.
func readTime(text string) (time.Time, bool) {
	at, err := time.Parse(time.RFC3339, text)
	year := at.UTC().Year()
	return at, err == nil && year >= 1 && year <= 9998
}
