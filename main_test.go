package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
)

// TestFlagsAreDocumented looks for each flag with its default and its meaning in the table of docs/operations.md.
func TestFlagsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	var f flags
	fs := flag.NewFlagSet("manager", flag.ContinueOnError)
	f.bind(fs)
	fs.VisitAll(func(is *flag.Flag) {
		value := is.DefValue
		if value != "" {
			value = "`" + value + "`"
		}
		row := fmt.Sprintf("\n| `--%s` | %s | %s |\n", is.Name, value, strings.ReplaceAll(is.Usage, "|", "\\|"))
		if !strings.Contains(string(page), row) {
			t.Errorf("docs/operations.md has no row%s", row)
		}
	})
}

// TestFlagsAreChecked has command lines with values that have no meaning: the error names the flag or the argument.
func TestFlagsAreChecked(t *testing.T) {
	for line, want := range map[string]string{
		"":                                  "",
		"--leader-elect=true":               "",
		"--kube-api-qps=0.5":                "",
		"--kube-api-qps=100000":             "",
		"--max-concurrent-reconciles=1000":  "",
		"--namespace-cache-mib=1048576":     "",
		"--leader-elect true":               `"true"`,
		"--leader-elect false --zap-devel":  `"false"`,
		"--kube-api-qps=0":                  "--kube-api-qps",
		"--kube-api-qps=-2":                 "--kube-api-qps",
		"--kube-api-qps=NaN":                "--kube-api-qps",
		"--kube-api-qps=Inf":                "--kube-api-qps",
		"--kube-api-qps=1e9":                "--kube-api-qps",
		"--max-concurrent-reconciles=0":     "--max-concurrent-reconciles",
		"--max-concurrent-reconciles=-1":    "--max-concurrent-reconciles",
		"--max-concurrent-reconciles=1001":  "--max-concurrent-reconciles",
		"--namespace-cache-mib=0":           "--namespace-cache-mib",
		"--namespace-cache-mib=10000000000": "--namespace-cache-mib",
	} {
		var f flags
		fs := flag.NewFlagSet("manager", flag.ContinueOnError)
		fs.SetOutput(io.Discard)
		f.bind(fs)
		err := fs.Parse(strings.Fields(line))
		if err == nil {
			err = f.check(fs)
		}
		switch {
		case want == "" && err != nil:
			t.Errorf("%q: %v", line, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: %v, want an error that names %s", line, err, want)
		}
	}
}
