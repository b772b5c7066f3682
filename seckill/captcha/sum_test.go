package captcha

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"miaosha/seckill/sandbox/sandboxtest"
)

func TestSumAnswer(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	answers := map[string]int{}
	for range 60_000 {
		s := newSum(rng)
		var a, b, want int
		var sign byte
		if _, err := fmt.Sscanf(s.text(), "%d %c %d", &a, &sign, &b); err != nil {
			t.Fatalf("sum %q: %v", s.text(), err)
		}
		switch sign {
		case '+':
			want = a + b
		case '-':
			want = a - b
		default:
			t.Fatalf("sum %q has sign %q", s.text(), sign)
		}
		if s.answer() != strconv.Itoa(want) {
			t.Fatalf("sum %q has answer %q, want %d", s.text(), s.answer(), want)
		}
		answers[s.answer()]++
	}
	if len(answers) < 10_000 {
		t.Errorf("%d different answers among 60,000 sums, want at least 10,000", len(answers))
	}
	for answer, n := range answers { // always guessing the most frequent answer must not help
		if n > 15 {
			t.Errorf("%s is the answer to %d of 60,000 sums", answer, n)
		}
	}
}

func TestNumbersInWords(t *testing.T) {
	for n, want := range map[int][2]string{
		1: {"一", "one"}, 9: {"九", "nine"},
		10_000: {"一万", "ten thousand"}, 10_006: {"一万零六", "ten thousand and six"}, 10_010: {"一万零一十", "ten thousand and ten"},
		10_100: {"一万零一百", "ten thousand one hundred"}, 20_300: {"二万零三百", "twenty thousand three hundred"},
		48_213: {"四万八千二百一十三", "forty-eight thousand two hundred and thirteen"},
		48_003: {"四万八千零三", "forty-eight thousand and three"}, 48_013: {"四万八千零一十三", "forty-eight thousand and thirteen"},
		50_505: {"五万零五百零五", "fifty thousand five hundred and five"}, 60_020: {"六万零二十", "sixty thousand and twenty"},
		99_999: {"九万九千九百九十九", "ninety-nine thousand nine hundred and ninety-nine"},
	} {
		if zh, en := chineseNumber(n), englishNumber(n); zh != want[0] || en != want[1] {
			t.Errorf("%d is %q and %q, want %q and %q", n, zh, en, want[0], want[1])
		}
	}
	if s := (sum{48_213, 6, true}); s.chinese() != "四万八千二百一十三减六" || s.english() != "forty-eight thousand two hundred and thirteen minus six" {
		t.Errorf("%q, %q", s.chinese(), s.english())
	}
	if s := (sum{10_001, 9, false}); s.chinese() != "一万零一加九" || s.english() != "ten thousand and one plus nine" {
		t.Errorf("%q, %q", s.chinese(), s.english())
	}
}

// Every number of a sum has a spelling of its own, which reads back as the same number.
func TestSpelledNumbersReadBack(t *testing.T) {
	for n := 1; n < 100_000; n++ {
		if got := readChinese(t, chineseNumber(n)); got != n {
			t.Fatalf("%d is spelled %q, which reads as %d", n, chineseNumber(n), got)
		}
		if got := readEnglish(t, englishNumber(n)); got != n {
			t.Fatalf("%d is spelled %q, which reads as %d", n, englishNumber(n), got)
		}
	}
}

func readChinese(t *testing.T, words string) (n int) {
	units := map[rune]int{'万': 10_000, '千': 1000, '百': 100, '十': 10}
	digit := 0
	for _, c := range words {
		if unit := units[c]; unit > 0 {
			n, digit = n+digit*unit, 0
			continue
		}
		at := strings.IndexRune("零一二三四五六七八九", c)
		if at < 0 {
			t.Fatalf("%q in %q", c, words)
		}
		digit = at / len("零")
	}
	return n + digit
}

func readEnglish(t *testing.T, words string) (n int) {
	values := map[string]int{"and": 0}
	for i, w := range englishOnes {
		values[w] = i
	}
	for i, w := range englishTens {
		if w != "" {
			values[w] = 10 * i
		}
	}
	for _, w := range strings.FieldsFunc(words, func(r rune) bool { return r == ' ' || r == '-' }) {
		value, known := values[w]
		switch {
		case w == "thousand":
			n *= 1000
		case w == "hundred":
			n += n % 100 * 99
		case known:
			n += value
		default:
			t.Fatalf("%q in %q", w, words)
		}
	}
	return n
}

// An answer is right only if it has the same digits as the right one, and nothing else.
func FuzzCaptchaAnswer(f *testing.F) {
	f.Add("48219", 48_213, 6, false)
	f.Add("48207", 48_213, 6, true)
	f.Add("", 10_000, 1, false)
	f.Add("048219", 48_213, 6, false)
	f.Add(" 48219", 48_213, 6, false)
	f.Add("48219\x00", 48_213, 6, false)
	f.Add("４８２１９", 48_213, 6, false)
	f.Add("+48219", 48_213, 6, false)
	f.Add("4.8219e4", 48_213, 6, false)
	slowest := sandboxtest.Slowest(f)
	f.Fuzz(func(t *testing.T, given string, a, b int, minus bool) {
		defer slowest(given, a, b, minus)()
		s := sum{10_000 + int(uint(a)%90_000), 1 + int(uint(b)%9), minus}
		want := s.a + s.b
		if minus {
			want = s.a - s.b
		}
		n, err := strconv.Atoi(given)
		same := err == nil && n == want && strconv.Itoa(n) == given
		if got := rightAnswer(s.answer(), given); got != same {
			t.Errorf("%q as the answer to %s: right %t", given, s.text(), got)
		}
		if rightAnswer("", given) {
			t.Errorf("%q counts as right although no sum was drawn", given)
		}
	})
}
