package sandbox

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// entry is one of a package. Without a kind it is a file.
type entry struct {
	name, text string
	kind       byte
	to         string // of a link
	size       int64  // what the header says, if the text is shorter
}

// npmPackage returns a package with these entries.
func npmPackage(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var file bytes.Buffer
	zipped := gzip.NewWriter(&file)
	w := tar.NewWriter(zipped)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Typeflag: e.kind, Linkname: e.to, Mode: 0o644, Size: max(int64(len(e.text)), e.size)}
		if e.kind == 0 {
			h.Typeflag = tar.TypeReg
		}
		if strings.Contains(e.name, "/bin/") {
			h.Mode = 0o755
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(e.text)); err != nil {
			t.Fatal(err)
		}
		if e.size > 0 {
			w.Flush() // an error: the text is too short
		}
	}
	w.Close() // the same error
	if err := zipped.Close(); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

// A package is unpacked with its links, open to every account.
func TestUnpack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "unpacked")
	err := unpack(t.Context(), bytes.NewReader(npmPackage(t,
		entry{name: "package/package.json", text: "{}"},
		entry{name: "package/native/bin/postgres", text: "a program"},
		entry{name: "package/native/lib/libpq.so.5.17", text: "a library"},
		entry{name: "package/native/share/", kind: tar.TypeDir},
		entry{name: "package/native/share/doc/readme", text: "a text"},
		entry{name: "package/native/pg-symlinks.json", text: `[{"source":"native/lib/libpq.so.5.17","target":"native/lib/libpq.so"},{"source":"native/lib/libpq.so.5.17","target":"native/share/libpq.so"}]`},
	)), dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			t.Fatal(err)
		}
		info, err := d.Info()
		if err != nil {
			t.Fatal(err)
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			t.Fatal(err)
		}
		line := name + " " + info.Mode().String()
		if info.Mode()&fs.ModeSymlink != 0 {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			line = name + " -> " + string(text)
		}
		got = append(got, line)
		return nil
	})
	want := `. drwxr-xr-x
bin drwxr-xr-x
bin/postgres -rwxr-xr-x
lib drwxr-xr-x
lib/libpq.so -> a library
lib/libpq.so.5.17 -rw-r--r--
share drwxr-xr-x
share/doc drwxr-xr-x
share/doc/readme -rw-r--r--
share/libpq.so -> a library`
	if got := strings.Join(got, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// No package writes outside of its folder, and none is larger than the limits, even if its sum is
// right.
func TestUnpackStaysInside(t *testing.T) {
	list := func(source, target string) entry {
		return entry{name: "package/native/pg-symlinks.json", text: fmt.Sprintf(`[{"source":%q,"target":%q}]`, source, target)}
	}
	file := entry{name: "package/native/lib/a", text: "a"}
	many := make([]entry, filesLimit+1)
	for i := range many {
		many[i] = entry{name: fmt.Sprintf("package/%d", i)}
	}
	for _, c := range []struct {
		name    string
		entries []entry
		want    string
	}{
		{"a name above", []entry{{name: "../escaped"}}, "leads out"},
		{"a name above the folder", []entry{{name: "package/native/../../../escaped"}}, "leads out"},
		{"an absolute name", []entry{{name: "/tmp/escaped"}}, "leads out"},
		{"a link", []entry{{name: "package/native/lib", kind: tar.TypeSymlink, to: ".."}, {name: "package/native/lib/escaped"}}, "neither a file nor a folder"},
		{"a hard link", []entry{{name: "package/native/lib", kind: tar.TypeLink, to: "/etc/passwd"}}, "neither a file nor a folder"},
		{"a device", []entry{{name: "package/native/lib", kind: tar.TypeBlock}}, "neither a file nor a folder"},
		{"a pipe", []entry{{name: "package/native/lib", kind: tar.TypeFifo}}, "neither a file nor a folder"},
		{"a listed link to a file above", []entry{file, list("native/../../victim", "native/lib/b")}, "leads out"},
		{"a listed link to an absolute name", []entry{file, list("/etc/passwd", "native/lib/b")}, "leads out"},
		{"a listed link at a place above", []entry{file, list("native/lib/a", "native/../../escaped")}, "leads out"},
		{"a listed link at an absolute place", []entry{file, list("native/lib/a", "/tmp/escaped")}, "leads out"},
		{"a listed link to a folder", []entry{file, list("native/lib", "native/b")}, "which is no file"},
		{"a listed link to nothing", []entry{file, list("native/none", "native/b")}, "no such file"},
		{"a listed link in the place of a file", []entry{file, {name: "package/native/lib/c"}, list("native/lib/a", "native/lib/c")}, "file exists"},
		{"a file twice", []entry{file, file}, "file exists"},
		{"a file in the place of a folder", []entry{file, {name: "package/native/lib/a/b"}}, "not a directory"},
		{"too large", []entry{{name: "package/native/lib/a", size: unpackLimit + 1}}, "more than 400 MB"},
		{"too large, and skipped", []entry{{name: "package/a", size: unpackLimit + 1}}, "more than 400 MB"},
		{"too many files", many, "more than 5000 files"},
	} {
		t.Run(c.name, func(t *testing.T) {
			top := t.TempDir()
			victim := filepath.Join(top, "victim")
			if err := os.WriteFile(victim, []byte("as it was"), 0o600); err != nil {
				t.Fatal(err)
			}
			err := unpack(t.Context(), bytes.NewReader(npmPackage(t, c.entries...)), filepath.Join(top, "unpacked"))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want one with %q", err, c.want)
			}
			if all := names(t, top); all != "unpacked victim" {
				t.Errorf("beside the folder there are now: %s", all)
			}
		})
	}
}

// A package that goes on behind the limit is refused, even if the limit lies exactly between two entries.
func TestUnpackSeesWhatLiesBehindTheLimit(t *testing.T) {
	var file, zeros bytes.Buffer
	member := func(w *bytes.Buffer, text []byte) { // a file of gzip may have many members
		zipped := gzip.NewWriter(w)
		if _, err := zipped.Write(text); err != nil {
			t.Fatal(err)
		}
		if err := zipped.Close(); err != nil {
			t.Fatal(err)
		}
	}
	header := func(name string, size int64) []byte {
		var text bytes.Buffer
		if err := tar.NewWriter(&text).WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: size}); err != nil {
			t.Fatal(err)
		}
		return text.Bytes()
	}
	const step = 1 << 20
	first := header("package/a", unpackLimit-512)
	member(&file, append(first, make([]byte, step-len(first))...))
	member(&zeros, make([]byte, step))
	for range unpackLimit/step - 1 {
		file.Write(zeros.Bytes())
	}
	member(&file, header("package/native/lib/dropped", 0))
	err := unpack(t.Context(), &file, filepath.Join(t.TempDir(), "unpacked"))
	if err == nil || !strings.Contains(err.Error(), "more than 400 MB") {
		t.Errorf("the error is %v, want one with the limit", err)
	}
}
