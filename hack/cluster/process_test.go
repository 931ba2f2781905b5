package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

func TestLogTail(t *testing.T) {
	p := &process{logPath: filepath.Join(t.TempDir(), "log")}
	if tail := p.logTail(); !strings.Contains(tail, "can't be read") {
		t.Error(tail)
	}
	var log strings.Builder
	for i := range 10000 {
		fmt.Fprintln(&log, "line", i)
	}
	writeFile(t, p.logPath, log.String())
	lines := strings.Split(p.logTail(), "\n")
	if len(lines) != 21 || lines[1] != "  | line 9980" || lines[20] != "  | line 9999" {
		t.Errorf("%d lines: %q", len(lines), lines)
	}
}

func TestUpOptions(t *testing.T) {
	o := upOptions{nodes: 1, apiserverFlags: []string{"v=4", "--feature-gates=A=true"}}
	if err := o.validate(); err != nil || o.apiserverFlags[0] != "v=4" || o.apiserverFlags[1] != "feature-gates=A=true" {
		t.Error(o.apiserverFlags, err)
	}
	for _, bad := range []upOptions{
		{nodes: -1}, {nodes: maxNodes + 1}, {apiserverFlags: []string{"v"}}, {apiserverFlags: []string{"--=4"}},
	} {
		if bad.validate() == nil {
			t.Errorf("%+v is taken for valid", bad)
		}
	}
}
