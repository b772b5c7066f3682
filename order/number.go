package order

import (
	"strings"

	"github.com/google/uuid"
)

// numberDigits are Crockford's: no I, L, O and U, which are misread.
const numberDigits = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

const numberLength = 12 // digits of five bits

// Number returns the short form of an order's id, for people: 06EX-3K2P-41ZD. It is the first 60 bits of the id
// (UUIDv7) without the version: its time in ms and the twelve bits behind it, which count the orders of a process
// within a ms. The first eight digits of the id itself would not do: all orders of a minute share them. Two processes
// may very rarely make one number twice. An id of another kind has no short form.
func Number(id uuid.UUID) string {
	if id.Version() != 7 {
		return id.String()
	}
	var n uint64
	for _, b := range id[:6] {
		n = n<<8 | uint64(b)
	}
	n = n<<12 | uint64(id[6]&0x0f)<<8 | uint64(id[7])
	text := make([]byte, 0, numberLength+2)
	for i := range numberLength {
		if i == 4 || i == 8 {
			text = append(text, '-')
		}
		text = append(text, numberDigits[n>>(5*(numberLength-1-i))&31])
	}
	return string(text)
}

// misread are the letters that are no digits, and what they stand for.
var misread = strings.NewReplacer("-", "", " ", "", "O", "0", "I", "1", "L", "1")

// OfNumber returns the range of the ids that have a number, and whether the text is one. A person may have typed it.
func OfNumber(text string) (first, last uuid.UUID, ok bool) {
	if len(text) > 2*numberLength {
		return first, last, false
	}
	text = misread.Replace(strings.ToUpper(text))
	if len(text) != numberLength {
		return first, last, false
	}
	var n uint64
	for _, c := range []byte(text) {
		digit := strings.IndexByte(numberDigits, c)
		if digit < 0 {
			return first, last, false
		}
		n = n<<5 | uint64(digit)
	}
	for i := range 6 {
		first[i] = byte(n >> (52 - 8*i))
	}
	first[6], first[7] = 0x70|byte(n>>8&0x0f), byte(n)
	last = first
	for i := 8; i < len(last); i++ {
		last[i] = 0xff
	}
	return first, last, true
}
