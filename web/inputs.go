package web

import (
	"errors"
	"time"
)

// inputs collects the wrong fields of a body that was decoded.
type inputs struct{ wrong []error }

// time returns a required time in RFC 3339. It has a year of four digits in every zone, or no answer could show it.
func (f *inputs) time(name, text string) time.Time {
	if text == "" {
		f.wrong = append(f.wrong, fieldError{name, "required"})
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339, text)
	if year := at.UTC().Year(); err != nil || year < 1 || year > 9998 {
		f.wrong = append(f.wrong, fieldError{name, "form"})
	}
	return at
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
