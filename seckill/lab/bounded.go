package lab

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"
)

// What one field of a bounded result has at most, before all of them are made smaller together.
const (
	boundedText  = 4 << 10 // bytes
	boundedList  = 512     // elements of a list, or fields of an object
	smallestText = 32
)

// Bounded returns v as JSON of at most size bytes, and whether something was left out. What a program prints, names,
// raises or reads back from its tables is as long as the program likes. Each text is cut first, and says so in its last
// words; if that is not enough, texts and then lists become shorter.
func Bounded(v any, size int) (raw json.RawMessage, cut bool, err error) {
	if raw, err = json.Marshal(v); err != nil {
		return nil, false, fmt.Errorf("encode a result: %w", err)
	}
	var whole any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&whole); err != nil {
		return nil, false, fmt.Errorf("read a result: %w", err)
	}
	for b := (bound{text: boundedText, list: boundedList}); ; b.smaller() {
		small := b.of(whole)
		if !b.cut && len(raw) <= size {
			return raw, false, nil
		}
		if raw, err = json.Marshal(small); err != nil {
			return nil, false, fmt.Errorf("encode a result: %w", err)
		}
		if len(raw) <= size || b.list == 0 {
			return raw, true, nil
		}
	}
}

// bound makes a decoded value smaller.
type bound struct {
	text, list int
	cut        bool // something was left out
}

func (b *bound) smaller() {
	if b.cut = false; b.text > smallestText {
		b.text /= 2
	} else {
		b.list /= 2
	}
}

func (b *bound) of(v any) any {
	switch v := v.(type) {
	case string:
		return b.string(v)
	case []any:
		shown := v[:min(len(v), b.list)]
		b.cut = b.cut || len(shown) < len(v)
		out := make([]any, len(shown))
		for i, e := range shown {
			out[i] = b.of(e)
		}
		return out
	case map[string]any:
		names := slices.Sorted(maps.Keys(v))
		shown := names[:min(len(names), max(b.list, smallestText))]
		b.cut = b.cut || len(shown) < len(names)
		out := make(map[string]any, len(shown))
		for _, name := range shown {
			out[b.string(name)] = b.of(v[name])
		}
		return out
	}
	return v
}

func (b *bound) string(text string) string {
	if len(text) <= b.text {
		return text
	}
	b.cut = true
	kept := text[:b.text]
	for !utf8.ValidString(kept) {
		kept = kept[:len(kept)-1]
	}
	return fmt.Sprintf("%s … （其余 %d 个字符未显示 / %[2]d more characters are not shown）", kept,
		utf8.RuneCountInString(text[len(kept):]))
}
