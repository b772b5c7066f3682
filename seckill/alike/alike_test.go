package alike

import (
	"strings"
	"testing"

	"miaosha/seckill/sandbox/sandboxtest"
)

func TestNamesThatLookAlike(t *testing.T) {
	t.Parallel()
	for name, others := range map[string][]string{
		"Anna":      {"anna", "ANNA", "Аnna", "Ａｎｎａ", "𝐀𝐧𝐧𝐚", "An\u200dna", "ᴀɴɴᴀ", "Αnnа"},
		"Анна":      {"АННА", "анна", "Aннa", "AHHA", "Aʜʜa"},
		"coco":      {"сосо", "СОСО", "ϲοϲο", "ⅽoⅽo", "c0co", "COCO"},
		"ian":       {"lAN"},
		"Bill":      {"BiIl", "bi1l", "Bi|l", "BlLL"},
		"Li Lei":    {"Li  Lei", "li lei", "Li\u00a0Lei", "Lі Lеі", "Ｌｉ　Ｌｅｉ"},
		"modern":    {"rnodern", "моdеrn"},
		"МАКС":      {"макс", "MAKC"},
		"工藤":        {"エ藤"},
		"ロボ":        {"口ボ"},
		"カレン":       {"ｶﾚﾝ"},
		"Zoe\u0308": {"Zo\u00eb"},
	} {
		for _, other := range others {
			if !LooksOf(name).Like(LooksOf(other)) {
				t.Errorf("%s and %+q look alike: %q %q", name, other, LooksOf(name), LooksOf(other))
			}
		}
	}
}

func TestNamesThatDoNotLookAlike(t *testing.T) {
	t.Parallel()
	names := []string{"Anna", "Анна Б", "Ann", "Ali", "Ail", "Nick", "Vick", "José", "Jose", "Zoë", "Zoe", "李雷", "李蕾", "韩梅梅", "韓梅梅", "王鹃", "王鹂", "李士", "李土",
		"张未", "张末", "田中", "由中", "日向", "曰向", "さくら", "サクラ", "はな", "ハナ", "김민수", "김민주", "สมชาย", "สมหญิง", "محمد", "محمود", "Иван", "Ирина", "Νίκος", "Νίκη",
		"student 1", "student 2", "student 11", "小明", "小明2", "👩", "👨"}
	for i, name := range names {
		for _, other := range names[:i] {
			if LooksOf(name).Like(LooksOf(other)) {
				t.Errorf("%s and %s look alike: %q", name, other, LooksOf(name))
			}
		}
	}
}

// Every character looks like what the table says of it, and that like itself.
func TestTheTableIsWhole(t *testing.T) {
	t.Parallel()
	if n := len(prototypes()); n != strings.Count(confusables, "\n") || n < 5000 {
		t.Fatalf("%d characters, of %d lines", n, strings.Count(confusables, "\n"))
	}
	for r, of := range prototypes() {
		if skeleton(string(r)) != skeleton(of) || of == "" {
			t.Errorf("%+q looks like %+q, and that like %+q", r, of, skeleton(of))
		}
	}
}

func FuzzLooks(f *testing.F) {
	f.Add("Аnna", "Anna")
	slowest := sandboxtest.Slowest(f)
	f.Fuzz(func(t *testing.T, one, other string) {
		defer slowest(one, other)()
		if LooksOf(one).Like(LooksOf(other)) != LooksOf(other).Like(LooksOf(one)) || !LooksOf(one).Like(LooksOf(one)) {
			t.Errorf("%+q and %+q", one, other)
		}
	})
}
