//go:build faults && linux

package faults

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// promise is a row of SECURITY.md, the shop without what the row promises, and a test of the row that fails then.
type promise struct {
	row   string // its threat
	pkg   string
	test  string
	edits []edit
}

var promises = []promise{
	{"scripted captcha", "./seckill/captcha", "TestCaptcha", []edit{{"seckill/captcha/captcha.go", "if !rightAnswer(want, answer) {", "if !rightAnswer(want, answer) && false {"}}},
	{"programs at the opening", "./seckill/address", "TestTurns", []edit{{"seckill/address/lot.go", "if now.Before(sale.StartsAt.Add(LotOpen)) {", "if false {"}}},
	{"a token for another purpose", "./web", "TestASumHasOnePurpose", []edit{{"seckill/gate/keys.go", `s.purpose.Name+":"+hex`, `"sum:"+hex`}}},
	{"a token for another purpose", "./seckill/address", "TestAnAddressHasTheKeyOfItsPurpose", []edit{{"seckill/purpose/purpose.go", `[]byte("miaosha " + p.Name)`, `[]byte("miaosha ")`}}},
	{"hidden address", "./seckill/address", "TestAddress", []edit{{"seckill/address/address.go", "uint64(sale)), token...)", "uint64(sale)))"}}},
	{"big gate", "./seckill/gate", "TestBigGate", []edit{{"seckill/gate/scripts/path.lua", "if ahead < room then", "if true then"}}},
	{"hoarding addresses", "./seckill/gate", "TestFirstExpiryStands", []edit{{"seckill/gate/scripts/path.lua", "return {'OK', tonumber(own), 0}", "own = nil"}}},
	{"hoarding addresses", "./seckill/gate", "TestAWastedAddressSendsItsHolderToTheEndOfTheLine",
		[]edit{{"seckill/gate/scripts/path.lua", "place = math.min(tonumber(redis.call('HGET', KEYS[6], user) or 0), 99) * 1e13 + now", "place = now"}}},
	{"another user in the same browser", "./web", "TestAPageOfAnotherUserDoesNothing", []edit{{"web/desk.go", "if !isFor(r, session.UserID) {", "if false {"}}},
	{"one person, many requests", "./web", "TestOneUserIsLimited", []edit{{"web/limit.go", "if l.AllowN(time.Now(), min(n, b.most.Burst)) {", "if l.AllowN(time.Now(), min(n, b.most.Burst)) || true {"}}},
	{"visits without end", "./web", "TestABannedUserCannotBuy", []edit{{"web/desk.go", "if err := d.bans.Check(userID); err != nil {", "if err := d.bans.Check(userID); err != nil && false {"}}},
	{"flood of requests", "./web", "TestBuysInFlightAreBounded", []edit{{"seckill/seckill.go", "if e.inFlight.Add(1) > int64(e.cfg.MaxInFlight) {", "if e.inFlight.Add(1) < 0 {"}}},
	{"taking all connections", "./web", "TestOneAddressDoesNotTakeEveryPlace", []edit{{"web/serve_conns.go", "if c.from.IsValid() && 4*l.open >= 3*l.size && l.nets.of[c.from] >= l.share {", "if false {"}}},
	{"repeated click", "./seckill/gate", "TestReserveAgain", []edit{{"seckill/gate/scripts/reserve.lua", "local has = had[i]\n", "local has = false\n"}}},
	{"guessing passwords, phones, codes", "./user", "TestEveryLoginHashesOnce", []edit{{"user/login.go", "_, err = s.hashes.check(ctx, turn, dummyHash, password)", ""}}},
	{"guessing passwords, phones, codes", "./user", "TestACodeIsGoodInItsBrowserAlone", []edit{{"user/code_use.lua", "if not code[1] or code[2] ~= ARGV[4] then", "if not code[1] then"}}},
	{"sessions", "./user", "TestRedisHasNoTokens", []edit{
		{"user/session.go", "HashTokenInStore: true", "HashTokenInStore: false"},
		{"user/session.go", "	return string(text[:])", "	if true {\n		return token\n	}\n	return string(text[:])"}}},
	{"staff", "./web", "TestEveryRouteForEveryCaller", []edit{{"web/desk_staff.go", "if !slices.Contains(roles, session.Role) {", "if !slices.Contains(roles, session.Role) && false {"}}},
	{"staff", "./seckill/admin", "TestAnActionIsInTheLogOrDidNotHappen", []edit{{"seckill/admin/admin.go", "		err := a.write(ctx, tx, by)\n", "		var err error\n"}}},
	{"staff", "./seckill/admin", "TestTheLogIsAppendOnly", []edit{{"schema.sql", "before update or truncate on admin_log", "before truncate on admin_log"}}},
	{"staff", "./seckill/archive", "TestOnlyArchivedRowsGo", []edit{{"schema.sql", "and sha256 = sum and gone_at is null", "and gone_at is null"}}},
	{"staff", "./seckill/archive", "TestOnlyArchivedRowsGo", []edit{{"schema.sql", "gone_at is null and written_by <> pg_current_xact_id()) then", "gone_at is null) then"},
		{"schema.sql", "sha256 = sum and gone_at is null and written_by <> pg_current_xact_id();", "sha256 = sum and gone_at is null;"}}},
	// One row is deleted without its archive, and no trigger refuses it: the audit finds it.
	{"staff", "./seckill/archive", "TestOldRowsGoToFiles", []edit{{"schema.sql", "and rows = n and sha256 = sum and gone_at is null", "and gone_at is null"},
		{"schema.sql", "where of_table = tg_table_name and rows = n and gone_at is null", "where of_table = tg_table_name and gone_at is null"},
		{"seckill/archive/archive.go", "if err == nil && tag.RowsAffected() != a.Rows {", "if err == nil && tag.RowsAffected() == 0 {"},
		{"seckill/archive/archive.go", "` p where ` + t.these", "` p where ` + t.these + map[string]string{\"order_events\": \" or id = 5\"}[t.name]"}}},
	{"staff", "./web", "TestWhatTheStaffDoesOutsidePostgresIsALine", []edit{{"web/lab.go", "caller.noted = caller.admin", "caller.noted = false"}}},
	{"staff", "./user", "TestABanIsLifted", []edit{{"user/ban.go", "values ('miaosha ban lift', 'user.unban', 'user ' || $1::bigint)`", "select 'x', 'x.x', 'x' where $1::bigint < 0`"}}},
	{"a viewer who collects telephones", "./web", "TestNoOneElseSeesAWholeValue", []edit{{"seckill/admin/orders.go", "	by.sees(Address, &o.Address.Address)\n", ""}}},
	{"a viewer who collects telephones", "./web", "TestSearchesOfAViewerAreCounted", []edit{{"seckill/admin/people.go", "if phone != \"\" && !by.Whole {", "if false {"}}},
	{"a viewer who collects telephones", "./seckill/admin", "TestSearchesForWholePhonesAreCounted", []edit{{"seckill/admin/sees.go",
		"select from users where id = $1 for no key update", "select from users where id = $1"}}},
	{"a viewer who collects telephones", "./seckill/admin", "TestAViewerSearchesForWholePhones", []edit{{"seckill/admin/people.go", "($8 or length(", "(true or $8 or length("}}},
	{"a sandbox's own routes", "./web", "TestTheDemoShopkeeperStaysAtThisMachine", []edit{{"web/desk.go", "|| atThisMachine(r) {", "|| true {"}}},
	{"DNS rebinding", "./web", "TestOtherHostNamesAreRefused", []edit{{"web/serve_host.go", "if hostAllowed(r.Host, names) {", "if true {"}}},
	{"cross-site", "./web", "TestOtherSitesAreRefused", []edit{{"web/web_router.go", "return p.Handler(next)", "p.AddTrustedOrigin(\"https://evil.example\")\n\treturn p.Handler(next)"}}},
	{"open redirect", "./web", "TestLogInLeadsToThisShopOnly", []edit{{"web/static/session.js", "return LOCAL.test(pathname) ? pathname + search : fallback;", "return pathname + search;"}}},
	{"other users' orders", "./order", "TestOrdersAreTheirOwnersAlone", []edit{{"order/order.go", "where  o.id = $1 and o.user_id = $2 and `", "where  o.id = $1 and $2::bigint > 0 and `"}}},
	{"malformed requests", "./web", "TestBodiesAreTakenExactly", []edit{{"web/desk_body.go", "d.DisallowUnknownFields()", ""}}},
	{"injection", "./web", "TestCSVIsTextForSpreadsheets", []edit{{"web/desk_csv.go", "return \"'\" + cell", "return cell"}}},
	{"names that deceive", "./user", "TestNicknames", []edit{{"seckill/alike/alike.go", "if of, ok := prototypes()[r]; ok {", "if of, ok := prototypes()[r]; ok && false {"}}},
	{"names that deceive", "./seckill/alike", "TestNamesThatLookAlike", []edit{{"seckill/alike/alike.go", "if of, ok := prototypes()[r]; ok {", "if of, ok := prototypes()[r]; ok && false {"}}},
	{"headers", "./web", "TestEveryRouteForEveryCaller", []edit{{"web/web_router.go", `h["X-Content-Type-Options"] = nosniff`, "_ = nosniff"}}},
	{"slow and large requests", "./web", "TestTransferEncodingEndsTheConnection", []edit{{"web/web_router.go", "if len(r.TransferEncoding) > 0 || !r.ProtoAtLeast(1, 1) || s.desk.isClosing() {", "if s.desk.isClosing() {"}}},
	{"slow and large requests", "./web", "TestBodiesAreTakenExactly", []edit{{"web/desk_body.go", "http.MaxBytesReader(w, r.Body, most)", "r.Body"}}},
	{"costly requests", "./web", "TestTheWorkOfEveryRouteIsBounded", []edit{{"web/limit_table.go", `searches = &limit{per: perUser, flag: "--rate", most: user.MustLimit("5/s"`,
		`searches = &limit{per: perUser, flag: "--rate", most: user.MustLimit("500/s"`}}},
	{"costly requests", "./seckill/admin/picture", "TestHostilePicturesAreRefused", []edit{{"seckill/admin/picture/picture.go", "if w.tooMuch() {", "if w.tooMuch() && len(raw) >= 100_000 {"}}},
	{"costly requests", "./seckill/admin/picture", "TestADecoderEndsWithItsRequest", []edit{{"seckill/admin/picture/picture.go", "if err := w.ctx.Err(); err != nil {", "if err := w.ctx.Err(); err != nil && false {"}}},
	{"costly requests", "./web", "TestAnAddressIsBoundInAll", []edit{{"web/web_router.go", "if b.most.Burst == 0 {", "if true {"}}},
	{"login flood", "./user", "TestOneNetworkDoesNotFillTheQueue", []edit{{"user/door.go", "if p.taken >= p.room || p.by[of] >= p.share {", "if p.taken >= p.room {"}}},
	{"operations", "./seckill/operator", "TestSettingsAreMasked", []edit{{"seckill/operator/config.go", "case isSecret(flag.Name):", "case false:"}}},
	{"payment", "./web", "TestNoticesAreTheProvidersAlone", []edit{{"seckill/payment/notice.go",
		`if !hmac.Equal([]byte(Sign(key, timestamp, body)), []byte(h.Get("X-Signature"))) {`, "if false {"}}},
	{"secrets", "./web", "TestNoSecretIsPrinted", []edit{{"user/login.go", `"log-in refused", "phone", masked(phone)`, `"log-in refused", "phone", phone`}}},
	{"least privilege", "./seckill/operator", "TestLeastPrivilege", []edit{{"order/expire.go",
		"update orders set status = 'cancelled'\n\t\twhere  id = $1 and user_id = $2", "update orders set status = 'cancelled', price = price\n\t\twhere  id = $1 and user_id = $2"}}},
	{"least privilege", "./seckill/operator", "TestLeastPrivilege", []edit{{"deploy/README.md", "update (status, paid_at, expires_at) on orders", "update (status, paid_at, expires_at, price) on orders"}}},
	{"least privilege", "./user", "TestMakeStaff", []edit{{"schema.sql", "\n       or acting is not null and not exists (select from users where id = acting and role = 'admin' and disabled_at is null) then\n        raise exception 'only another administrator changes a role'",
		" then\n        raise exception 'only another administrator changes a role'"}}},
	{"TLS", "./web", "TestTLS", []edit{{"web/serve_listen.go", "GetCertificate: current, MinVersion: tls.VersionTLS12, CipherSuites: cipherSuites", "GetCertificate: current, MinVersion: tls.VersionTLS10"}}},
	{"supply", "./seckill/sandbox", "TestFetchRefusesALyingMirror", []edit{{"seckill/sandbox/fetch.go", "sum != want {", "sum == \"\" {"}}},
	{"supply", "./seckill/operator", "TestMakeChecksWhatSecuritySays", []edit{{"Makefile", "computed = vet lint fuzz seeds raced", "computed = vet lint fuzz seeds"}}},
	{"other accounts of the machine", "./seckill/sandbox", "TestStrangersFolderIsRefused", []edit{{"seckill/sandbox/account_unix.go", "if info.Mode().Perm()&0o002 != 0 {", "if false {"}}},
	{"students' programs", "./seckill/lab/throwaway", "TestSessionsShareTheirLimits", []edit{{"seckill/lab/throwaway/wrapper_linux.go", "case now > w.Limits.Processor:", "case false:"}}},
	{"students' programs", "./seckill/lab/throwaway", "TestAProgramHasNoRightBesideItsDatabase", []edit{{"seckill/lab/throwaway/template_linux.go", "` login connection limit 40", "` login createdb connection limit 40"}}},
	{"students' programs", "./seckill/lab/throwaway", "TestNothingIsLeftOfAServer", []edit{{"seckill/lab/throwaway/wrapper_linux.go", "if segment > 0 {", "if segment > 0 && false {"}}},
}

var reRow = regexp.MustCompile(`(?m)^\| ([^|]+) \| [^|]+ \| ([^|]+) \|$`)

// TestPromises proves that the tests of SECURITY.md fail when a promise is broken: each row has at least one promise here, and its
// test, which the row names, fails on the shop without it. Each is a program that is built and tested, so `make promises` alone
// runs them: without MIAOSHA_PROMISES this only checks that the rows and the code that a promise removes are there.
func TestPromises(t *testing.T) {
	page, err := os.ReadFile("../../SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]string{} // row -> its tests
	for _, m := range reRow.FindAllStringSubmatch(string(page), -1) {
		shown[m[1]] = m[2]
	}
	delete(shown, "threat")
	delete(shown, "---")
	for row := range shown {
		if !slices.ContainsFunc(promises, func(p promise) bool { return p.row == row }) {
			t.Errorf("the row %q has no promise here: the shop without it, and the test that fails then", row)
		}
	}
	for _, p := range promises {
		t.Run(p.row+"/"+p.test, func(t *testing.T) {
			if tests, there := shown[p.row]; !there || !regexp.MustCompile(`\b`+p.test+`\b`).MatchString(tests) {
				t.Errorf("SECURITY.md has no row %q that names %s", p.row, p.test)
			}
			overlay(t, "promise "+p.row+" "+p.test, p.edits...)
			if os.Getenv("MIAOSHA_PROMISES") == "" {
				return
			}
			out, err := p.run(t, sources(t))
			if failed := bytes.Contains(out, []byte("--- FAIL: "+p.test)); err == nil || !failed {
				t.Errorf("it does not fail on the shop without the promise: %v\n%s", err, tail(string(out), 40))
				return
			}
			first, _, _ := strings.Cut(string(out[max(0, bytes.Index(out, []byte("_test.go:"))):]), "\n")
			t.Log(first)
		})
	}
}

// sources copies the sources once, and returns the folder. An overlay would change only what is compiled, and tests read the
// schema, the documents and the Makefile, too.
func sources(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(shared.dir, "promises")
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", `git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -t "$0"`, dir)
	cmd.Dir = "../.."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("copy the sources: %v\n%s", err, out)
	}
	return dir
}

// run runs the test on sources without the promise, and puts them back.
func (p promise) run(t *testing.T, dir string) ([]byte, error) {
	t.Helper()
	for _, e := range p.edits {
		path := filepath.Join(dir, e.file)
		text, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, bytes.Replace(text, []byte(e.old), []byte(e.new), 1), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		defer os.WriteFile(path, text, 0o644)
	}
	cmd := exec.Command("go", "test", "-count", "1", "-timeout", "10m", "-run", "^"+p.test+"$", p.pkg)
	cmd.Dir = dir
	return cmd.CombinedOutput()
}
