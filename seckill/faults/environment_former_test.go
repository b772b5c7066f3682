//go:build faults && linux

package faults

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"miaosha/seckill/sandbox/sandboxtest"
)

// formerShop is the former version of the shop in testdata, which former.sh has made. It is built once.
var formerShop = sync.OnceValues(func() (path string, err error) {
	dir := filepath.Join(shared.dir, "former")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	if out, err := exec.Command("tar", "-xJf", filepath.Join("testdata", "former.tar.xz"), "-C", dir).CombinedOutput(); err != nil {
		return "", fmt.Errorf("unpack the former version: %w: %s", err, out)
	}
	path = filepath.Join(shared.dir, "miaosha-former")
	build := exec.Command("go", "build", "-trimpath", "-tags", "faults", "-o", path, ".")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the former version: %w\n%s", err, out)
	}
	return path, nil
})

// useFormer lets the commands and the first shop be of the former version, on a database without a schema.
func (env *Environment) useFormer() error {
	path, err := formerShop()
	if err != nil {
		return err
	}
	env.binary = path
	ctx, cancel := context.WithTimeout(context.Background(), sandboxtest.Hang)
	defer cancel()
	_, err = env.pool.Exec(ctx, `drop schema public cascade; create schema public`)
	return err
}

// The archive is what former.sh makes of the history. A clone without that history cannot tell.
func TestTheFormerVersionIsOfTheHistory(t *testing.T) {
	needProgram(t, "xz")
	if exec.Command("git", "cat-file", "-e", "c40b7e4^{commit}").Run() != nil {
		t.Skip("this clone does not have the commit of the former version")
	}
	made := filepath.Join(t.TempDir(), "former.tar.xz")
	if out, err := exec.Command(filepath.Join("testdata", "former.sh"), made).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	unpacked := func(path string) string {
		text, err := exec.Command("xz", "-dc", path).Output() // another xz may compress in another way
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if unpacked(made) != unpacked(filepath.Join("testdata", "former.tar.xz")) {
		t.Error("testdata/former.tar.xz differs from the history: run testdata/former.sh")
	}
}
