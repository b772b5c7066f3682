package captcha

import (
	"math/rand/v2"
	"strconv"
)

// sum is the task that a buyer solves: a number of five digits, plus or minus one of one digit. There are about 90,000
// answers, all about equally likely. A person needs a few seconds, because mostly only the last digits change.
type sum struct {
	a, b  int // a 10,000 to 99,999, b 1 to 9
	minus bool
}

func newSum(rng *rand.Rand) sum {
	return sum{10_000 + rng.IntN(90_000), 1 + rng.IntN(9), rng.IntN(2) == 0}
}

// text returns the sum in digits, such as "48213 + 6".
func (s sum) text() string {
	sign := " + "
	if s.minus {
		sign = " - "
	}
	return strconv.Itoa(s.a) + sign + strconv.Itoa(s.b)
}

// answer returns the right answer in digits.
func (s sum) answer() string {
	if s.minus {
		return strconv.Itoa(s.a - s.b)
	}
	return strconv.Itoa(s.a + s.b)
}

// words returns the sum spelled out.
func (s sum) words(chinese bool) string {
	if chinese {
		return s.chinese()
	}
	return s.english()
}

// chinese and english spell the sum for a buyer who hears it.
func (s sum) chinese() string {
	sign := "加"
	if s.minus {
		sign = "减"
	}
	return chineseNumber(s.a) + sign + chineseNumber(s.b)
}

func (s sum) english() string {
	sign := " plus "
	if s.minus {
		sign = " minus "
	}
	return englishNumber(s.a) + sign + englishNumber(s.b)
}

var (
	chineseDigits = [...]string{"零", "一", "二", "三", "四", "五", "六", "七", "八", "九"}
	chineseUnits  = [...]string{"万", "千", "百", "十", ""}
	englishOnes   = [...]string{"", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
		"eleven", "twelve",
		"thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"}
	englishTens = [...]string{2: "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"}
)

// chineseNumber spells 1 to 99,999. Zeros between two other digits, however many, are spelled as one 零.
func chineseNumber(n int) (spelled string) {
	gap := false
	for i, unit := 0, 10_000; i < len(chineseUnits); i, unit = i+1, unit/10 {
		switch digit := n / unit % 10; {
		case digit == 0:
			gap = spelled != ""
		case gap:
			spelled, gap = spelled+"零"+chineseDigits[digit]+chineseUnits[i], false
		default:
			spelled += chineseDigits[digit] + chineseUnits[i]
		}
	}
	return spelled
}

// englishNumber spells 1 to 99,999.
func englishNumber(n int) string {
	rest := func(head string, left int, joint string) string {
		if left == 0 {
			return head
		}
		return head + joint + englishNumber(left)
	}
	switch {
	case n < 20:
		return englishOnes[n]
	case n < 100:
		return rest(englishTens[n/10], n%10, "-")
	case n < 1000:
		return rest(englishOnes[n/100]+" hundred", n%100, " and ")
	case n%1000 > 0 && n%1000 < 100:
		return rest(englishNumber(n/1000)+" thousand", n%1000, " and ")
	default:
		return rest(englishNumber(n/1000)+" thousand", n%1000, " ")
	}
}
