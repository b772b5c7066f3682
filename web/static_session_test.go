package web_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// The log-in page leads to a page of this shop, whatever its address asks for. EVIL stands for the
// host of another site, and SHOP for the shop's.
func TestLogInLeadsToThisShopOnly(t *testing.T) {
	t.Parallel()
	forms := []struct{ next, want string }{
		{"", "/"},
		{"/", "/"},
		{"/orders.html", "/orders.html"},
		{"/sale.html?id=7", "/sale.html?id=7"},
		{"/sale.html?id=7&lang=en#top", "/sale.html?id=7&lang=en"},
		{"/sale.html?id=//EVIL/", "/sale.html?id=//EVIL/"},
		{"/a/../orders.html", "/orders.html"},
		{"/./orders.html", "/orders.html"},
		{"/@EVIL/", "/@EVIL/"},
		{"/:80@EVIL/", "/:80@EVIL/"},
		{"/EVIL/", "/EVIL/"},
		{"/http://EVIL/", "/http://EVIL/"},
		{"/%2f%2fEVIL/", "/%2f%2fEVIL/"},
		{"/%5c%5cEVIL/", "/%5c%5cEVIL/"},
		{"/%09/EVIL/", "/%09/EVIL/"},
		{"/ /EVIL/", "/%20/EVIL/"},
		{"/\u00a0/EVIL/", "/%C2%A0/EVIL/"},
		{"/\ufeff/EVIL/", "/%EF%BB%BF/EVIL/"},
		{"/\u2028/EVIL/", "/%E2%80%A8/EVIL/"},
		{"/\uff0fEVIL/", "/%EF%BC%8FEVIL/"},
		{"/\u2215EVIL/", "/%E2%88%95EVIL/"},
		{"/%2e%2e//EVIL/", "/"},
		{"/.//EVIL/", "/"},
		{"/.//EVIL/log-in?then=/", "/"},
		{"/././/EVIL/", "/"},
		{"/.///EVIL/", "/"},
		{"/..//EVIL/", "/"},
		{"/../..//EVIL/", "/"},
		{"/a/..//EVIL/", "/"},
		{"/a/b/../..//EVIL/", "/"},
		{"/%2e//EVIL/", "/"},
		{"/%2E//EVIL/", "/"},
		{"/.%2e//EVIL/", "/"},
		{"/%2e.//EVIL/", "/"},
		{"/a/%2e%2e//EVIL/", "/"},
		{"/.//user@EVIL/", "/"},
		{"/./\\EVIL/", "/"},
		{"/.\\/EVIL/", "/"},
		{"/.\t//EVIL/", "/"},
		{"/.\n//EVIL/", "/"},
		{"//EVIL/", "/"},
		{"///EVIL/", "/"},
		{"////EVIL/", "/"},
		{"//user@EVIL/", "/"},
		{"//SHOP@EVIL/", "/"},
		{"//EVIL\\@SHOP/", "/"},
		{"//SHOP/orders.html", "/"},
		{"/\\EVIL/", "/"},
		{"/\\EVIL/orders.html", "/"},
		{"\\\\EVIL/", "/"},
		{"\\/EVIL/", "/"},
		{"/\t/EVIL/", "/"},
		{"/\n/EVIL/", "/"},
		{"/\r/EVIL/", "/"},
		{"/\r\n/EVIL/", "/"},
		{"\t//EVIL/", "/"},
		{" //EVIL/", "/"},
		{"\u0001//EVIL/", "/"},
		{"/\u0000/EVIL/", "/"},
		{"http://EVIL/", "/"},
		{"http:/EVIL/", "/"},
		{"http:EVIL/", "/"},
		{"http:\\\\EVIL/", "/"},
		{"HTTPS://EVIL/", "/"},
		{"http://SHOP/orders.html", "/"},
		{"javascript:alert(1)", "/"},
		{"data:text/html,x", "/"},
	}
	root := chromium(t)
	s := sharedSandbox(t)
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `<!doctype html><p data-test="sale-card">Log in again, here.`)
	}))
	t.Cleanup(evil.Close)
	hosts := strings.NewReplacer("EVIL", strings.TrimPrefix(evil.URL, "http://"), "SHOP", strings.TrimPrefix(s.URL, "http://"))
	v := visit(t, root, s.URL, "en-GB")

	// An attack on a person who logs in.
	v.goTo("/login.html?next=" + hosts.Replace("/.//EVIL/"))
	v.registers(newPhone(), "N")
	v.sees(test("sale-card"))
	if at := v.evaluates(`location.href`); at != s.URL+"/" {
		t.Errorf("the log-in page leads to %s, want %s/", at, s.URL)
	}

	// All forms, as the page reads them from its address and as the browser resolves the result.
	v.goTo("/login.html")
	for _, form := range forms {
		next, err := json.Marshal(hosts.Replace(form.next))
		if err != nil {
			t.Fatal(err)
		}
		type link struct{ Path, Host string }
		got := ask(v, "read the address", here[link](fmt.Sprintf(`(async () => {
			const { localPath } = await import(document.querySelector('link[rel="modulepreload"][href$="/session.js"]').href);
			const link = document.createElement('a');
			const path = localPath(new URLSearchParams('next=' + encodeURIComponent(%s)).get('next'), '/');
			link.href = path;
			return { Path: path, Host: link.host };
		})()`, next)))
		if want := (link{hosts.Replace(form.want), hosts.Replace("SHOP")}); got != want {
			t.Errorf("next=%q leads to %q at %s, want %q", form.next, got.Path, hosts.Replace(got.Host), want.Path)
		}
	}
}
