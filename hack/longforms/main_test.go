package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLongForms has tests that reach a form by themselves, through a function, a method, a table and a chain of them, and others.
func TestLongForms(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a_test.go"), `package a

import "huolala.cn/app-operator/test/fixture"

func TestMain(m *testing.M) { fixture.Of(1, 2) }

func TestItself(t *testing.T) { _ = fixture.Of(1, 2) }

func TestOther(t *testing.T) { fixture.Meta("a", "b"); short() }

func TestChain(t *testing.T) { one() }

func one() { two() }

type thing struct{}

func (thing) method() { for range fixture.Turns(1) {} }

func short() {}
`)
	write(t, filepath.Join(dir, "b_test.go"), `package a

func two() { if fixture.Long {} }

var table = map[string]func(){"a": func() { fixture.Part(nil) }}

func TestMethod(t *testing.T) { thing{}.method() }

func TestTable(t *testing.T) { for range table {} }

func TestShort(t *testing.T) {}
`)
	for folder, want := range map[string]string{
		dir:          "^(TestChain|TestItself|TestMethod|TestTable)\\b",
		dir + "/...": "^(TestChain|TestItself|TestMethod|TestOther|TestShort|TestTable)\\b",
	} {
		if got, err := run([]string{folder}); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", folder, got, err, want)
		}
	}
	if got, err := run([]string{t.TempDir()}); err == nil || !strings.Contains(err.Error(), "has a long form") {
		t.Errorf("a folder without tests: %q, %v", got, err)
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
