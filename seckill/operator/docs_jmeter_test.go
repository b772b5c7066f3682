package operator

import (
	"encoding/xml"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"miaosha/seckill/sandbox/sandboxtest"
)

// jmeterClasses are the test elements of JMeter that the plan has, with the class that shows each.
var jmeterClasses = map[string]string{
	"TestPlan": "TestPlanGui", "ThreadGroup": "ThreadGroupGui", "CSVDataSet": "TestBeanGUI", "ConfigTestElement": "HttpDefaultsGui",
	"HeaderManager": "HeaderPanel", "IfController": "IfControllerPanel", "WhileController": "WhileControllerGui",
	"HTTPSamplerProxy": "HttpTestSampleGui", "RegexExtractor": "RegexExtractorGui", "ResponseAssertion": "AssertionGui",
	"ConstantTimer": "ConstantTimerGui", "CounterConfig": "CounterConfigGui", "ResultCollector": "SummaryReport",
}

// element is an element of a JMeter plan.
type element struct {
	XMLName  xml.Name
	Attrs    []xml.Attr `xml:",any,attr"`
	Text     string     `xml:",chardata"`
	Children []element  `xml:",any"`
}

func (e element) attr(name string) string {
	for _, a := range e.Attrs {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

// prop returns the text of the property with this name, in e or below it.
func (e element) prop(name string) string {
	for _, c := range e.Children {
		if c.attr("name") == name {
			return strings.TrimSpace(c.Text)
		}
		if text := c.prop(name); text != "" {
			return text
		}
	}
	return ""
}

// node is a test element of the plan with those below it.
type node struct {
	element
	below []node
}

// nodes checks that each element of a hashTree is a known one that is followed by the hashTree of its own, and returns
// them.
func nodes(t *testing.T, tree element) (all []node) {
	t.Helper()
	if len(tree.Children)%2 != 0 {
		t.Fatalf("a hashTree has %d children, want pairs", len(tree.Children))
	}
	for pair := range slices.Chunk(tree.Children, 2) {
		e, below := pair[0], pair[1]
		class := e.attr("testclass")
		if class == "" || e.XMLName.Local != class || jmeterClasses[class] != e.attr("guiclass") || below.XMLName.Local != "hashTree" {
			t.Fatalf("<%s testclass=%q guiclass=%q> is followed by <%s>", e.XMLName.Local, class, e.attr("guiclass"), below.XMLName.Local)
		}
		all = append(all, node{e, nodes(t, below)})
	}
	return all
}

// find returns the elements of a class, in the order of the plan.
func find(all []node, class string) (found []node) {
	for _, n := range all {
		if n.attr("testclass") == class {
			found = append(found, n)
		}
		found = append(found, find(n.below, class)...)
	}
	return found
}

// jmeterUser is one thread of JMeter, which does what the plan says. Variables live as long as it does: a line of the
// file with fewer fields than names leaves the others as they are.
type jmeterUser struct {
	t     *testing.T
	url   string
	plan  []node
	vars  map[string]string // also the properties of -J
	sent  []string          // each request, with the session that it has, the code of the answer, and "error" if it counts as one
	waits []string          // before each poll, in ms
}

var jmeterProperty = regexp.MustCompile(`\$\{__P\((\w+),(\w+)\)\}`)

func (u *jmeterUser) fill(text string) string {
	text = jmeterProperty.ReplaceAllStringFunc(text, func(call string) string {
		m := jmeterProperty.FindStringSubmatch(call)
		if value, ok := u.vars["-J"+m[1]]; ok {
			return value
		}
		return m[2]
	})
	for name, value := range u.vars {
		text = strings.ReplaceAll(text, "${"+name+"}", value)
	}
	return text
}

var jmeterConditions = []struct {
	form *regexp.Regexp
	is   func(m []string) bool
}{
	{regexp.MustCompile(`^"([^"]*)" =~ "(.+)"$`), func(m []string) bool { return regexp.MustCompile("^(?:" + m[2] + ")$").MatchString(m[1]) }},
	{regexp.MustCompile(`^"([^"]*)"\.length\(\) < (\d+)$`), func(m []string) bool { return len(m[1]) < digits(m[2]) }},
	{regexp.MustCompile(`^"([^"]*)"\.length\(\) >= (\d+)$`), func(m []string) bool { return len(m[1]) >= digits(m[2]) }},
	{regexp.MustCompile(`^"([^"]*)" == "(\w+)" && (\d+) < (\d+)$`), func(m []string) bool { return m[1] == m[2] && digits(m[3]) < digits(m[4]) }},
}

func digits(text string) int {
	n, _ := strconv.Atoi(text)
	return n
}

// holds reports whether a condition does. It knows the forms that the plan has.
func (u *jmeterUser) holds(condition string) bool {
	u.t.Helper()
	text, jexl := strings.CutPrefix(condition, "${__jexl2(")
	text = u.fill(strings.TrimSuffix(text, ")}"))
	for _, c := range jmeterConditions {
		if m := c.form.FindStringSubmatch(text); jexl && m != nil {
			return c.is(m)
		}
	}
	u.t.Fatalf("the condition %s, %s, has no form that is known", condition, text)
	return false
}

// buys does what the plan says for one line of the file.
func (u *jmeterUser) buys(line string) {
	u.t.Helper()
	names := strings.Split(find(u.plan, "CSVDataSet")[0].prop("variableNames"), ",")
	for i, field := range strings.Split(line, ",") {
		u.vars[names[i]] = field
	}
	u.runs(find(u.plan, "ThreadGroup")[0].below, nil)
}

// runs does elements in their order. around are the extractors and assertions of the elements above, which see each
// answer.
func (u *jmeterUser) runs(elements, around []node) {
	u.t.Helper()
	for _, n := range elements {
		if class := n.attr("testclass"); class == "RegexExtractor" || class == "ResponseAssertion" {
			around = append(slices.Clone(around), n)
		}
	}
	for _, n := range elements {
		switch n.attr("testclass") {
		case "IfController":
			if n.prop("IfController.useExpression") == "true" && u.holds(n.prop("IfController.condition")) {
				u.runs(n.below, around)
			}
		case "WhileController":
			counter := find(n.below, "CounterConfig")[0]
			for at := digits(counter.prop("CounterConfig.start")); u.holds(n.prop("WhileController.condition")); at += digits(counter.prop("CounterConfig.incr")) {
				u.vars[counter.prop("CounterConfig.name")] = strconv.Itoa(at)
				u.runs(n.below, around)
			}
		case "HTTPSamplerProxy":
			u.sends(n, around)
		}
	}
}

func (u *jmeterUser) sends(sampler node, around []node) {
	u.t.Helper()
	for _, timer := range find(sampler.below, "ConstantTimer") {
		u.waits = append(u.waits, u.fill(timer.prop("ConstantTimer.delay")))
	}
	header, path := find(u.plan, "HeaderManager")[0], u.fill(sampler.prop("HTTPSampler.path"))
	if strings.Contains(path, "${") {
		u.t.Fatalf("%s has a variable without a value", path)
	}
	reply := sandboxtest.Call(sampler.prop("HTTPSampler.method"), u.url+path, "", "", header.prop("Header.name"), u.fill(header.prop("Header.value")))
	verdict := ""
	for _, n := range append(slices.Clone(around), sampler.below...) {
		switch n.attr("testclass") {
		case "RegexExtractor":
			seen := string(reply.Raw)
			if n.prop("RegexExtractor.useHeaders") == "true" {
				seen = "Retry-After: " + reply.Header.Get("Retry-After")
			}
			value := u.fill(n.prop("RegexExtractor.default"))
			if m := regexp.MustCompile(n.prop("RegexExtractor.regex")).FindStringSubmatch(seen); m != nil {
				value = n.prop("RegexExtractor.template")
				if len(m) > 1 {
					value = strings.ReplaceAll(value, "$1$", m[1])
				}
			}
			u.vars[n.prop("RegexExtractor.refname")] = value
		case "ResponseAssertion":
			if n.prop("Assertion.assume_success") != "true" || !regexp.MustCompile(n.prop("1")).Match(reply.Raw) {
				verdict = " error"
			}
		}
	}
	u.sent = append(u.sent, sampler.attr("testname")+" "+u.vars["token"]+" "+u.vars["code"]+verdict)
}

// jmeterPlan returns the elements of the plan.
func jmeterPlan(t *testing.T) []node {
	t.Helper()
	var root element
	if err := xml.Unmarshal([]byte(deployFile(t, "miaosha.jmx")), &root); err != nil {
		t.Fatal(err)
	}
	if root.XMLName.Local != "jmeterTestPlan" || len(root.Children) != 1 {
		t.Fatalf("the plan is a %s with %d children", root.XMLName.Local, len(root.Children))
	}
	all := nodes(t, root.Children[0])
	for class := range jmeterClasses {
		if len(find(all, class)) == 0 {
			t.Errorf("the plan has no %s", class)
		}
	}
	return all
}

// The plan for JMeter is well formed, and buys in a shop with what the command users has printed: a buyer with an
// address, a blank line, and a buyer without an address, who gets one of their own, and reads that all is sold out.
// That is no error.
func TestJMeterPlan(t *testing.T) {
	t.Parallel()
	plan := jmeterPlan(t)
	env := append(sandboxtest.Stores(t), "MIAOSHA_CAPTCHA=off", "MIAOSHA_RATE=off", "MIAOSHA_IP_RATE=off") // as README.md says
	shop := sandboxtest.Open(t, env)
	sale := sandboxtest.Sale(t, env, 1)
	with := strings.Fields(sandboxtest.MustCommand(t, env, "users", "-n", "1", "--sale", sale))
	without := strings.Fields(sandboxtest.MustCommand(t, env, "users", "-n", "1"))
	data := find(plan, "CSVDataSet")[0]
	if names := data.prop("variableNames"); names != with[0] || data.prop("ignoreFirstLine") != "true" || data.prop("recycle") != "false" {
		t.Errorf("the plan reads %s, the header of the file is %s", names, with[0])
	}
	u := &jmeterUser{t: t, url: shop.URL, plan: plan, vars: map[string]string{"-Jsale": sale, "-Jpolls": "1000000"}}
	for _, line := range []string{with[0], with[1], "", without[1]} {
		u.buys(line)
	}
	token := func(line string) string { return strings.Split(line, ",")[2] }
	first, second := token(with[1]), token(without[1])
	sent := slices.Compact(u.sent) // a ticket may be queued for more than one poll
	want := []string{"buy " + first + " ok", "result " + first + " ok", "path " + second + " ok", "buy " + second + " sold_out"}
	if sent[2] != want[2] { // the shop refuses as early as it knows
		want = append(want[:2], "path "+second+" sold_out")
	}
	if diff := cmp.Diff(want, sent); diff != "" {
		t.Errorf("what the plan sends (-want +got): %s", diff)
	}
}

// A buyer's turn ends with any final answer, and after so many polls; what asks to wait is waited for, and nothing of a
// buyer is sent for the next one.
func TestJMeterPlanEndsEachTurn(t *testing.T) {
	t.Parallel()
	plan := jmeterPlan(t)
	const queued, ordered = `200 {"code":"ok","data":{"state":"queued"}}`, `200 {"code":"ok","data":{"state":"ordered"}}`
	refused := func(status int, code string) string { return fmt.Sprintf(`%d {"code":%q}`, status, code) }
	for _, test := range []struct {
		path, buy string
		results   []string // the last one for ever
		want      []string // of the first buyer, whose line has no address
		waits     []string
	}{
		{"", queued, []string{queued, ordered}, []string{"path a ok", "buy a ok", "result a ok", "result a ok"}, []string{"200", "200"}},
		{"", queued, []string{refused(401, "not_logged_in")}, []string{"path a ok", "buy a ok", "result a not_logged_in error"}, []string{"200"}},
		{"", queued, []string{refused(404, "no_sale")}, []string{"path a ok", "buy a ok", "result a no_sale error"}, []string{"200"}},
		{"", queued, []string{`502 <html>`}, []string{"path a ok", "buy a ok", "result a no answer error"}, []string{"200"}},
		{"", queued, []string{queued}, []string{"path a ok", "buy a ok", "result a ok", "result a ok", "result a ok"}, []string{"200", "200", "200"}},
		{"", queued, []string{refused(429, "too_many"), refused(503, "busy"), ordered},
			[]string{"path a ok", "buy a ok", "result a too_many error", "result a busy error", "result a ok"}, []string{"200", "7000", "7000"}},
		{"", refused(410, "sold_out"), nil, []string{"path a ok", "buy a sold_out"}, nil},
		{"", refused(410, "ended"), nil, []string{"path a ok", "buy a ended error"}, nil},
		{"", refused(409, "paused"), nil, []string{"path a ok", "buy a paused error"}, nil},
		{"", ordered, nil, []string{"path a ok", "buy a ok"}, nil},
		{refused(410, "sold_out"), "", nil, []string{"path a sold_out"}, nil},
		{refused(429, "too_many"), "", nil, []string{"path a too_many error"}, nil},
		{refused(401, "not_logged_in"), "", nil, []string{"path a not_logged_in error"}, nil},
	} {
		var asked []string
		results := test.results
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked = append(asked, r.URL.Path)
			answer := test.path
			switch {
			case strings.HasSuffix(r.URL.Path, "/path") && answer == "":
				answer = `200 {"code":"ok","data":{"path":"an-address-of-` + strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ") + `-alone"}}`
			case strings.HasSuffix(r.URL.Path, "/result"):
				answer = results[0]
				results = results[min(1, len(results)-1):]
			case strings.Contains(r.URL.Path, "/buy/"):
				answer = test.buy
			}
			status, text, _ := strings.Cut(answer, " ")
			if status == "429" || status == "503" {
				w.Header().Set("Retry-After", "7")
			}
			w.WriteHeader(digits(status))
			w.Write([]byte(text))
		}))
		u := &jmeterUser{t: t, url: server.URL, plan: plan, vars: map[string]string{"-Jpolls": "3"}}
		u.buys("1,13800000000,a")
		if diff := cmp.Diff(test.want, u.sent); diff != "" || !slices.Equal(u.waits, test.waits) {
			t.Errorf("buy: %s, results: %s: waits %v (-want +got): %s", test.buy, test.results, u.waits, diff)
		}
		turn := len(u.sent)
		u.buys("2,13800000001,b")
		if len(u.sent) != 2*turn && test.results == nil {
			t.Errorf("buy: %s: the second buyer sends %v", test.buy, u.sent[turn:])
		}
		for _, path := range asked[turn:] {
			if strings.Contains(path, "of-a") {
				t.Errorf("the second buyer sends the first one's address: %s", path)
			}
		}
		server.Close()
	}
}
