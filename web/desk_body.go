package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"miaosha/seckill/lab/program"
)

const (
	maxBody = 4 << 10
	// of a body that has a program of a student: each line end and quote takes two bytes
	maxProgram = 2*program.MaxSource + maxBody
)

// readBody reads the request's body into v: one JSON object of at most 4 KB, with known fields only, each
// at most once, and nothing after it. If the body is optional, a missing one is an empty object.
func readBody(w http.ResponseWriter, r *http.Request, v any, optional bool) error {
	raw, err := rawBody(w, r, maxBody)
	if err != nil {
		return err
	}
	if len(bytes.TrimSpace(raw)) == 0 && optional {
		return nil
	}
	if err := isJSON(r); err != nil {
		return err
	}
	return decode(raw, v)
}

// programBody is readBody for a request with a program: at most maxProgram bytes. Its field plan is an object, which is
// read into plan; without a plan it has none.
func programBody(w http.ResponseWriter, r *http.Request, v, plan any) error {
	raw, err := rawBody(w, r, maxProgram)
	if err != nil {
		return err
	}
	if err := isJSON(r); err != nil {
		return err
	}
	fields, err := readObject(raw, false)
	if err != nil {
		return err
	}
	if plan == nil {
		return decodeFields(fields, v)
	}
	i := slices.IndexFunc(fields, func(f rawField) bool { return f.name == "plan" })
	switch {
	case i < 0:
		err = fieldError{"plan", "required"}
	case fields[i].value[0] != '{':
		err = fieldError{"plan", "type"}
	default:
		err = decode(fields[i].value, plan)
	}
	if i >= 0 {
		fields = slices.Delete(fields, i, i+1)
	}
	return errors.Join(err, decodeFields(fields, v))
}

// isJSON returns errMediaType if a request does not say that its body is JSON.
func isJSON(r *http.Request) error {
	if t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || t != "application/json" {
		return errMediaType
	}
	return nil
}

// refuseBody returns errBadRequest if the request has a body.
func refuseBody(w http.ResponseWriter, r *http.Request) error {
	if r.Body == http.NoBody {
		return nil
	}
	raw, err := rawBody(w, r, maxBody)
	if err == nil && len(raw) > 0 {
		err = fmt.Errorf("%w: the request has a body", errBadRequest)
	}
	return err
}

// decode reads the fields of an object into v, one by one, so that its error names every wrong one.
func decode(raw []byte, v any) error {
	fields, err := readObject(raw, false)
	if err != nil {
		return err
	}
	return decodeFields(fields, v)
}

// decodeKnown is decode for a message of another system, which may be newer than this program: only the fields with
// these names are read, and all others are passed over, whatever their names and values are.
func decodeKnown(raw []byte, v any, names ...string) error {
	fields, err := readObject(raw, true)
	if err != nil {
		return err
	}
	return decodeFields(slices.DeleteFunc(fields, func(f rawField) bool { return !slices.Contains(names, f.name) }), v)
}

func decodeFields(fields []rawField, v any) error {
	var wrong []error
	for _, f := range fields {
		d := json.NewDecoder(strings.NewReader(`{"` + f.name + `":` + string(f.value) + `}`))
		d.DisallowUnknownFields()
		err := d.Decode(v)
		if mistyped, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			reason := "type"
			if strings.HasPrefix(mistyped.Value, "number ") { // with a fraction, or beyond an int64
				reason = "whole"
			}
			wrong = append(wrong, fieldError{f.name, reason})
		} else if err != nil {
			wrong = append(wrong, fieldError{f.name, "unknown"})
		} else if !isFlat(f.value) {
			wrong = append(wrong, fieldError{f.name, "form"})
		}
	}
	return errors.Join(wrong...)
}

// maxFields is the number of fields of a body that are read: more than any body of the shop has.
const maxFields = 32

type rawField struct {
	name  string
	value json.RawMessage
}

// readObject returns the fields of a body in their order. It refuses what Go's decoder accepts: null
// instead of an object, text that is not UTF-8, and a field that comes twice or, unless any name is allowed, in
// capitals.
func readObject(raw []byte, anyName bool) (fields []rawField, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') || !utf8.Valid(raw) {
		return nil, fmt.Errorf("%w: not an object in UTF-8", errBadRequest)
	}
	for seen := map[string]bool{}; d.More(); {
		key, err := d.Token()
		name, _ := key.(string)
		if err != nil || seen[name] || !anyName && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz_") != "" {
			return nil, fmt.Errorf("%w: a field comes twice, or in capitals", errBadRequest)
		}
		seen[name] = true
		f := rawField{name: name}
		if err := d.Decode(&f.value); err != nil {
			return nil, fmt.Errorf("%w: %v", errBadRequest, err)
		}
		if fields = append(fields, f); len(fields) > maxFields && !anyName {
			return nil, fmt.Errorf("%w: more than %d fields", errBadRequest, maxFields)
		}
	}
	if _, err := d.Token(); err != nil {
		return nil, fmt.Errorf("%w: %v", errBadRequest, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("%w: data after the object", errBadRequest)
	}
	return fields, nil
}

// isFlat reports whether a value is a plain value or a list of plain values.
func isFlat(raw json.RawMessage) bool {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber() // 1e400 is a number, if a large one
	value, err := d.Token()
	if value != json.Delim('[') {
		return err == nil && isPlain(value)
	}
	for d.More() {
		if value, err = d.Token(); err != nil || !isPlain(value) {
			return false
		}
	}
	_, err = d.Token()
	return err == nil
}

// isPlain reports whether a value is no object and no list, and has no zero byte.
func isPlain(value json.Token) bool {
	text, _ := value.(string)
	_, nested := value.(json.Delim)
	return !nested && !strings.Contains(text, "\x00")
}

func rawBody(w http.ResponseWriter, r *http.Request, most int64) ([]byte, error) {
	if measured, ok := w.(*statusWriter); ok {
		w = measured.ResponseWriter // on which MaxBytesReader closes the connection
	}
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, errTooLarge
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %v", errBadRequest, err)
	}
	return raw, nil
}
