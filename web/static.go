package web

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

//go:embed static
var embedded embed.FS

// page is one HTML page. All pages are made from static/page.html, once in each language.
type page struct {
	Path, Style, Script string // Style may name several, with a space between
	// what a visitor sees until the script has run: list, sale, missing, intro or, as most pages, one sheet
	Skeleton           string
	Title, Description bilingual // the shop's name follows the title
}

var shopName = bilingual{"秒杀", "miaosha"} // of a shop without --shop-name, as in words/zh.js and words/en.js

var pages = []page{
	{"/", "list.css", "index.js", "list", bilingual{"限时秒杀", "Flash sales"},
		bilingual{"正在抢购和即将开始的秒杀：价格、剩余件数和倒计时。每场每人限购一件。",
			"The flash sales that are on now and up next: prices, units left and countdowns. One per person per sale."}},
	{"/sale.html", "sale.css", "sale.js", "sale", bilingual{"秒杀商品", "Flash sale"},
		bilingual{"一场秒杀的价格、剩余件数和倒计时。开抢后在这里下单。",
			"One flash sale: its price, the units left and the countdown. You buy on this page."}},
	{"/login.html", "account.css", "login.js", "", bilingual{"登录", "Log in"},
		bilingual{"用手机号登录或注册，然后回到刚才的页面。",
			"Log in or register with a phone number, and go back to the page you came from."}},
	{"/orders.html", "account.css", "orders.js", "", bilingual{"我的订单", "My orders"},
		bilingual{"你在本店的全部订单：待付款的、已付款的和已取消的。", "All your orders in this shop: awaiting payment, paid and cancelled."}},
	{"/order.html", "account.css", "order.js", "", bilingual{"订单", "Order"},
		bilingual{"一个订单的状态、金额、付款时限和收货地址。",
			"One order: its status, its amount, the time left to pay and the delivery address."}},
	{"/account.html", "account.css", "account.js", "", bilingual{"我的账号", "My account"},
		bilingual{"修改昵称、手机号、密码和收货地址，查看登录的设备。",
			"Change your nickname, phone number, password and delivery address, and see where you are logged in."}},
	{"/pay.html", "account.css", "pay.js", "", bilingual{"沙盒收银台", "Sandbox cashier"},
		bilingual{"练习用的收银台，不收真钱：可以确认付款，也可以暂不付款。",
			"A cashier for practice that takes no real money: confirm the payment, or choose not to pay now."}},
	{"/admin.html", "admin/admin.css", "admin/admin.js", "", bilingual{"后台", "Back office"},
		bilingual{"店铺的后台：秒杀、订单、支付、商品、用户和实时看板。",
			"The shop's back office: sales, orders, payments, products, users and the live view."}},
	{"/live.html", "admin/live.css", "admin/live_page.js", "intro", bilingual{"实时看板", "Live view"},
		bilingual{"实时看板：每秒更新的库存、请求数、订单数和延迟。",
			"The live view: units, requests, orders and latencies, updated every second."}},
	{"/lab.html", "lab/lab.css lab/picture.css", "lab/lab.js", "intro", bilingual{"实验室", "The lab"},
		bilingual{"秒杀实验室：看库存怎么超卖、订单怎么丢失，再看正确的方案。",
			"The lab: see how a flash sale oversells and loses orders, and how to fix it."}},
	{minePage, "lab/lab.css lab/picture.css mine/mine.css", "mine/mine.js", "intro",
		bilingual{"自己写一种卖法", "Your own strategy"},
		bilingual{"自己写出怎样卖一件货，让一群买家来抢，再一步一步看它在哪里出错。",
			"Write how one unit is sold, let a crowd click at once, and see step by step where it goes wrong."}},
	{"/courses.html", "courses/courses.css", "courses/courses.js", "intro", bilingual{"课程索引", "Course index"},
		bilingual{"按秒杀课程里的词，找到本店对应的代码、实验和说明。",
			"Look up a term from a flash-sale course, and find its code, its lesson and its document in this shop."}},
	{"/handout.html", "lab/handout.css", "lab/handout.js", "", bilingual{"讲义", "Handouts"},
		bilingual{"实验室每课一份讲义，可以打印：正文、问题、填数字的表和关键的代码。",
			"A printable handout for each lesson of the lab: its text, its question, a table for the figures, and the key lines of the source."}},
	{classPage, "lab/lab.css lab/picture.css class/class.css", "class/class.js", "", bilingual{"课堂", "Class"},
		bilingual{"用课堂码加入课堂；老师在大屏幕上看谁做出了哪道练习。",
			"Join a class with its code; the teacher sees on the projector who has solved which exercise."}},
	{teachPage, "sandbox/teach.css", "sandbox/teach.js", "", bilingual{"教学面板", "Teaching panel"},
		bilingual{"故意弄坏沙盒的一部分，看买家会遇到什么，再看店铺怎样恢复。",
			"Break a part of the sandbox on purpose, see what a buyer notices, and see how the shop recovers."}},
}

// teachPage is only in a sandbox that no other machine reaches.
const teachPage = "/teach.html"

// minePage runs programs of its visitors, so only a sandbox has it.
const minePage = "/mine.html"

// classPage is for a lesson, which is held in a sandbox.
const classPage = "/class.html"

// firstSteps is the script of the things that only a sandbox has.
const firstSteps = "sandbox/first.js"

// missingPage is what a browser sees at an address that the shop does not have.
var missingPage = page{"", "account.css", "missing.js", "missing", bilingual{"页面不存在", "Page not found"},
	bilingual{"这个地址没有对应的页面。", "The shop has no page at this address."}}

// assets are the pages and the embedded files that they need, compressed when a browser first asks for them. The URL of
// a file holds a hash of all files, /static/<hash>/app.css. So a browser may keep the file for a year, and relative
// imports between scripts work. A browser revalidates a page on each visit, by its ETag. A page is in the language that
// the browser asks for. In a sandbox the pages link to the lab and to the index of the courses, and load
// sandbox/first.js; data-lab says "local" there if only this machine reaches the shop. A shop with a name of its own
// shows it on every page, and one without codes says at the log-in that it sends none.
//
// With an origin, pages load the files from there, and any page may load them from here: a browser asks a script of
// another origin whether it may be used, and a CDN passes on what it has received.
type assets struct {
	origin string // the CDN's, maybe with a path; "" is the shop's own
	hash   string
	files  map[string]*file    // by URL path
	pages  map[string]pageFile // by URL path
	absent pageFile            // sent with the status 404
}

// pageFile is a page in both languages. The script early.js shows the language that the visitor has chosen in this
// browser, which the shop does not know.
type pageFile struct{ zh, en *file }

func (p pageFile) in(zh bool) *file {
	if zh {
		return p.zh
	}
	return p.en
}

type file struct {
	*encoded
	contentType, cacheControl []string // header values
}

// marks are what the pages say of their shop, as attributes of the document.
type marks struct {
	Shop       string // its name, "" without one
	Sandbox    bool
	Local      bool   // a sandbox that only this machine reaches
	DataDir    string // of a local sandbox, for commands; see Demo
	OpsURL     string
	NoCodes    bool
	LivePublic bool // the live view is open to everyone
}

func loadAssets(origin string, of marks) (*assets, error) {
	root, err := fs.Sub(embedded, "static")
	if err != nil {
		return nil, fmt.Errorf("read the pages: %w", err)
	}
	raw, sum := map[string][]byte{}, sha256.New()
	err = fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(root, name)
		raw[name] = b
		fmt.Fprintf(sum, "%s %d\n", name, len(b))
		sum.Write(b)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the pages: %w", err)
	}
	p, err := newCompressor(gzip.BestCompression, zstd.SpeedBestCompression)
	if err != nil {
		return nil, err
	}
	a := &assets{origin: origin, hash: hex.EncodeToString(sum.Sum(nil)[:8]), files: map[string]*file{},
		pages: map[string]pageFile{}}
	newFile := func(at string, b []byte, contentType string, cacheControl []string) (*file, error) {
		if contentType == "" {
			return nil, fmt.Errorf("%s: its extension has no media type here", at)
		}
		return &file{p.prepare(b), []string{contentType}, cacheControl}, nil
	}
	shell, err := template.New("page").Parse(string(raw["page.html"]))
	if err != nil {
		return nil, fmt.Errorf("read the pages: %w", err)
	}
	delete(raw, "page.html")
	scripts := scriptsOf(raw)
	newPage := func(pg page, intro bilingual, zh bool) (*file, error) {
		lang := bilingual{"zh", "en"}.in(zh)
		preloads, err := modules(scripts, pg.Script, lang)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", pg.Path, err)
		}
		if of.Sandbox {
			more, err := modules(scripts, firstSteps, lang)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", pg.Path, err)
			}
			preloads = append(append(preloads, more...), firstSteps)
			slices.Sort(preloads)
			preloads = slices.DeleteFunc(slices.Compact(preloads), func(name string) bool { return name == pg.Script })
		}
		var b bytes.Buffer
		err = shell.Execute(&b, struct {
			page
			marks
			Prefix             string
			Styles, Preloads   []string
			Lang               string
			Title, Description string
			Heading, Intro     bilingual
		}{pg, of, a.prefix(), strings.Fields(pg.Style), preloads, bilingual{"zh-CN", "en"}.in(zh),
			pg.Title.in(zh) + " · " + cmp.Or(of.Shop, shopName.in(zh)), pg.Description.in(zh), pg.Title, intro})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", pg.Path, err)
		}
		return newFile(pg.Path, b.Bytes(), contentTypes[".html"], noCache)
	}
	for _, pg := range append([]page{missingPage}, pages...) {
		if pg.Path == teachPage && !of.Local || (pg.Path == minePage || pg.Path == classPage) && !of.Sandbox {
			continue
		}
		var intro bilingual
		if pg.Skeleton == "intro" {
			if intro, err = introOf(raw, pg); err != nil {
				return nil, fmt.Errorf("%s: %w", pg.Path, err)
			}
		}
		var p pageFile
		if p.zh, err = newPage(pg, intro, true); err != nil {
			return nil, err
		}
		if p.en, err = newPage(pg, intro, false); err != nil {
			return nil, err
		}
		a.pages[pg.Path] = p
	}
	a.absent = a.pages[missingPage.Path]
	delete(a.pages, missingPage.Path)
	a.pages["/index.html"] = a.pages["/"]
	for name, b := range raw {
		if a.files[a.path()+name], err = newFile(name, b, contentTypes[path.Ext(name)], keepForever); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// introOf returns the first paragraph of a page, the text lab.intro of /lab.html, from the files of words. It is in the
// page itself, so that it is read before the script is there.
func introOf(files map[string][]byte, pg page) (intro bilingual, err error) {
	key := strings.TrimSuffix(path.Base(pg.Path), ".html") + ".intro"
	text := regexp.MustCompile(`(?m)^  '` + regexp.QuoteMeta(key) + `': '([^'\\]+)',$`)
	for name, b := range files {
		isZH := strings.HasSuffix(name, "zh.js")
		if !isZH && !strings.HasSuffix(name, "en.js") {
			continue
		}
		if m := text.FindSubmatch(b); m != nil && isZH {
			intro.ZH = string(m[1])
		} else if m != nil {
			intro.EN = string(m[1])
		}
	}
	if intro.ZH == "" || intro.EN == "" {
		return intro, fmt.Errorf("no plain text %s in both languages", key)
	}
	return intro, nil
}

func (a *assets) path() string { return "/static/" + a.hash + "/" }

// prefix returns the URL below which browsers find the files.
func (a *assets) prefix() string { return a.origin + a.path() }

// url returns the URL of an image that the catalogue names, or "" if the shop does not have it: pages show a parcel
// then.
func (a *assets) url(image string) string {
	if strings.HasPrefix(image, "/") {
		return image
	}
	if a.files[a.path()+image] == nil {
		return ""
	}
	return a.prefix() + image
}

// contentTypes has the media types of the embedded files, by extension. The machine's own table may
// differ.
var contentTypes = map[string]string{
	".js":   "text/javascript; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".html": "text/html; charset=utf-8",
	".svg":  "image/svg+xml",
	"":      "text/plain; charset=utf-8",
}
