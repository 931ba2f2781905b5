package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// run runs the plug-in and returns its exit code, and what it prints.
func run(t *testing.T, env map[string]string, args ...string) (code int, out, said string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = Run(t.Context(), Program{
		Path: "/usr/local/bin/kubectl-happ", Args: args, Version: "v9", Commit: "abc", In: strings.NewReader(""), Out: &stdout, Err: &stderr,
		Getenv: func(name string) string { return env[name] },
	})
	return code, stdout.String(), stderr.String()
}

// TestUsage checks what needs no cluster: names, help, versions, and what is wrong with arguments.
func TestUsage(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "kubeconfig")
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"help":           {[]string{"--help"}, 0, "kubectl happ COMMAND"},
		"version":        {[]string{"version"}, 0, "kubectl happ v9, commit abc"},
		"completion":     {[]string{"completion", "bash"}, 0, "bash completion"},
		"no shell":       {[]string{"completion", "csh"}, exitError, `"csh" is none of bash`},
		"unknown":        {[]string{"trees"}, exitError, "unknown command"},
		"no name":        {[]string{"tree"}, exitError, `no argument is given; write "kubectl happ tree NAME"`},
		"no format":      {[]string{"tree", "cart", "-o", "wide"}, exitError, `"wide" is none of json, yaml`},
		"no kubeconfig":  {[]string{"tree", "cart", "--kubeconfig", missing}, 1, "kubeconfig: "},
		"no condition":   {[]string{"wait", "cart", "--for", "luck"}, exitError, `"luck" is none of ready, synced, canary and deleted`},
		"no failure":     {[]string{"wait", "cart", "--fail", "luck"}, exitError, `"luck" is none of stalled, cause and never`},
		"wait, no way":   {[]string{"wait", "cart", "--kubeconfig", missing}, exitError, "kubeconfig: "},
		"nothing named":  {[]string{"pause"}, exitError, `no argument is given; write "kubectl happ pause NAME..."`},
		"unknown option": {[]string{"list", "--nonsense"}, exitError, "unknown flag"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, said := run(t, nil, c.args...)
			if code != c.code || !strings.Contains(out+said, c.want) {
				t.Errorf("exit status %d, want %d; it says %q, want %q in it", code, c.code, out+said, c.want)
			}
		})
	}
}

// TestCompletionOfProgram has the completion of each shell registered for the name of the program.
func TestCompletionOfProgram(t *testing.T) {
	for shell, want := range map[string]string{
		"bash": "complete -o default -F __start_%s %[1]s\n", "zsh": "#compdef %s\n", "fish": "complete -c %s ", "powershell": "-CommandName '%s' ",
	} {
		for path, name := range map[string]string{"/usr/local/bin/kubectl-happ": "kubectl-happ", "kubectl-happ.exe": "kubectl-happ", "/opt/happ": "happ"} {
			var out, said bytes.Buffer
			code := Run(t.Context(), Program{
				Path: path, Args: []string{"completion", shell}, In: strings.NewReader(""), Out: &out, Err: &said, Getenv: func(string) string { return "" },
			})
			if code != 0 || !strings.Contains(out.String(), fmt.Sprintf(want, name)) {
				t.Errorf("%s of %s: exit status %d, %s, without %q", shell, path, code, said.String(), fmt.Sprintf(want, name))
			}
		}
	}
}

// TestStyle checks when there are colors, and when only ASCII.
func TestStyle(t *testing.T) {
	for _, c := range []struct {
		env          map[string]string
		color        string
		colors, text bool
	}{
		{nil, "auto", false, true},
		{map[string]string{"LANG": "de_DE.UTF-8"}, "always", true, false},
		{map[string]string{"LANG": "de_DE.UTF-8", "LC_ALL": "C"}, "never", false, true},
		{map[string]string{"LC_CTYPE": "C.utf8", "NO_COLOR": "1"}, "always", true, false},
	} {
		r := &root{Program: Program{Getenv: func(name string) string { return c.env[name] }}, color: c.color}
		style, err := r.styleOf(&bytes.Buffer{})
		if err != nil || style.Color != c.colors || style.ASCII != c.text || style.Width != 0 {
			t.Errorf("%v, --color=%s: %+v, %v", c.env, c.color, style, err)
		}
	}
	if _, err := (&root{Program: Program{Getenv: os.Getenv}, color: "pink"}).styleOf(nil); err == nil {
		t.Error("--color=pink is no error")
	}
}

// TestWaveSize checks how many are refreshed at a time.
func TestWaveSize(t *testing.T) {
	for _, c := range []struct {
		wave      string
		all, want int
	}{{"", 7, 7}, {"3", 7, 3}, {"9", 7, 7}, {"10%", 7, 1}, {"50%", 7, 4}, {"100%", 7, 7}, {"0", 7, 0}, {"-1", 7, 0}, {"101%", 7, 0}, {"x", 7, 0}} {
		got, err := waveSize(c.wave, c.all)
		if got != c.want || (err == nil) != (c.want > 0) {
			t.Errorf("%q of %d: %d, %v; want %d", c.wave, c.all, got, err, c.want)
		}
	}
}

// TestManagerWithoutPlugin checks that the manager has nothing of the plug-in in it.
func TestManagerWithoutPlugin(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", ".")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := strings.Fields(string(out))
	if len(packages) < 300 {
		t.Fatalf("the manager has only %d packages", len(packages))
	}
	for _, p := range packages {
		for _, theirs := range []string{
			"huolala.cn/app-operator/plugin", "huolala.cn/app-operator/internal/live", "k8s.io/cli-runtime", "huolala.cn/app-operator/api/client",
		} {
			if p == theirs || strings.HasPrefix(p, theirs+"/") {
				t.Errorf("the manager has %s", p)
			}
		}
	}
}

// TestPluginWithoutManager checks that the plug-in has nothing of the manager in it.
func TestPluginWithoutManager(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "go", "list", "-buildvcs=false", "-deps", "../../cmd/kubectl-happ")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for p := range strings.FieldsSeq(string(out)) {
		for _, theirs := range []string{"huolala.cn/app-operator/controllers", "huolala.cn/app-operator/webhooks", "sigs.k8s.io/controller-runtime"} {
			if p == theirs || strings.HasPrefix(p, theirs+"/") {
				t.Errorf("the plug-in has %s", p)
			}
		}
	}
}

// TestRepeatedObjects leaves out of an answer the objects that it repeats, and nothing else.
func TestRepeatedObjects(t *testing.T) {
	secret := `{"apiVersion":"v1","spec":{"rootPass":"123456"}}`
	for said, want := range map[string]string{
		`"a" is invalid: <nil>: Invalid value: ` + secret + `: strict decoding error: unknown field "spec.replicas"`: `"a" is invalid: strict decoding error: unknown field "spec.replicas"`,
		`"a" is invalid: "": Invalid value: ` + strconv.Quote(secret) + `: no such field`:                            `"a" is invalid: no such field`,
		`patch: Invalid value: ` + strconv.Quote(secret) + `: no`:                                                    `patch: Invalid value: no`,
		`spec.replicas: Invalid value: -1: should be at least 0`:                                                     `spec.replicas: Invalid value: -1: should be at least 0`,
		`spec.image: Invalid value: "a b": has a space`:                                                              `spec.image: Invalid value: "a b": has a space`,
	} {
		if got := inWords(errors.New(said), "patch", "App a", "shop").Error(); got != "patch App a in shop: "+want {
			t.Errorf("%s\n%s", said, got)
		}
	}
	if err := inWords(apierrors.NewConflict(schema.GroupResource{}, "a", nil), "patch", "App a", ""); !apierrors.IsConflict(err) {
		t.Errorf("%v is no conflict", err)
	}
}
