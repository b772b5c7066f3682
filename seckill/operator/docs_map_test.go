package operator

import (
	"os/exec"
	"path"
	"strings"
	"testing"
)

// The table of folders in both READMEs is a map: each package has a link there, to its folder or to one above it. The
// folder of the rush is no link for the packages below it.
func TestEveryPackageIsOnTheMap(t *testing.T) {
	t.Parallel()
	list := exec.Command("go", "list", "-f", "{{.ImportPath}}", "miaosha/...")
	list.Dir = "../.."
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	r := repository{root: "../.."}
	for _, readme := range []string{"README.md", "README.zh-CN.md"} {
		linked := map[string]bool{}
		for line := range strings.Lines(r.document(t, readme).text) {
			if !strings.HasPrefix(line, "|") {
				continue
			}
			for _, m := range reLink.FindAllStringSubmatch(line, -1) {
				linked[strings.TrimSuffix(m[1], "/README.md")] = true
			}
		}
		for _, pkg := range strings.Fields(string(out)) {
			folder, below := strings.CutPrefix(pkg, "miaosha/")
			if !below {
				folder = "main.go"
			}
			at := folder
			for !linked[at] && path.Dir(at) != "." && path.Dir(at) != "seckill" {
				at = path.Dir(at)
			}
			if !linked[at] {
				t.Errorf("%s: no row of its tables links to %s", readme, folder)
			}
		}
	}
}
