package user

import (
	"errors"
	"strings"
	"testing"

	"miaosha/seckill/sandbox/sandboxtest"
)

func TestNicknames(t *testing.T) {
	for reason, names := range map[string][]string{
		"": {"小明", "n", "小秒", "Ann-Marie O'Neill", "李 雷", "Zoë", "Nguyễn Thị Ánh", "สมชาย", "محمد", "می\u200cخواهم", "👨\u200d👩\u200d👧\u200d👦", "❤\ufe0f\u200d🔥",
			"🏳\ufe0f\u200d🌈", "1\ufe0f\u20e3", "badminton", "rooted", "supporter", "<b>bold</b>", "a\"b\\c", "客人", "官人", "user 7", "Bill", "Tolstoi", "Наталья", "Ольга", "Νίκος",
			"e\u0301\u0323", "a\u0301\u0301\u0301\u0301", strings.Repeat("名", 32)},
		"form": {"a\u202eb", "\u2066admin\u2069", "a\u200eb", "a\u061cb", "a\u200b\u200b\u200bb", "\u200d", "a\u200d", "\u200da", "a\u200d\u200db", "a\u2060b", "\ufeffa",
			"a\u00adb", "\u3164", "\u2800\u2800", "\u115f", "   ", "a\u2028b", "a\u0301\u0301\u0301\u0301\u0301", "\u0301", "\u0301a", "a\u200d\u0301b", "a\u034fb", "a\U000e0041b", "\ue000", "a\nb", "a\x00b", "a\xffb"},
		"reserved": {"admin", "Admin", "ADMIN", "administrator", "аdmin", "admіn", "ａｄｍｉｎ", "𝐚𝐝𝐦𝐢𝐧", "ad.min", "a d m i n", "_admin_", "adm1n", "@dmin", "Ádmin", "admin1", "admin 1",
			"ADMlN", "admln", "OfficiaI", "officia1", "0ff1c1a1", "sys7em", "ADMIΝ", "ΑDΜIN", "ΑDΜΙΝ", "SΥSTEM", "αdmin", "οfficial", "МІАОЅНА", "ᴀᴅᴍɪɴ", "ⓐⓓⓜⓘⓝ", "аԁmіn", "adмin", "ЅUРРОRТ", "管1理员", "客a服",
			"miaosha official", "Official shop", "r00t", "support", "customer service", "miaosha", "管理员", "本店管理员小李", "官方客服", "客 服", "掌柜", "秒杀官方", "工作人员007"},
		"length":   {strings.Repeat("名", 33)},
		"required": {""},
	} {
		for _, name := range names {
			want := error(InvalidError{"nickname", reason})
			if reason == "" {
				want = nil
			}
			if err := CheckNickname(name); !errors.Is(err, want) {
				t.Errorf("nickname %+q: %v, want %v", name, err, want)
			}
		}
	}
}

func FuzzNickname(f *testing.F) {
	f.Add("小明")
	f.Add("a\u200d\u202e\xff")
	slowest := sandboxtest.Slowest(f)
	f.Fuzz(func(t *testing.T, name string) {
		defer slowest(name)()
		if CheckNickname(name) == nil && (strings.ContainsAny(name, "\u200b\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff\x00\n") || name == "") {
			t.Errorf("%+q was accepted", name)
		}
	})
}
