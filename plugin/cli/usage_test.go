package cli

import (
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	appv1 "huolala.cn/app-operator/api/v1"
)

// allCommands calls do for each command with the arguments that lead to it.
func allCommands(cmd *cobra.Command, path []string, do func(*cobra.Command, []string)) {
	for _, below := range cmd.Commands() {
		here := slices.Concat(path, []string{below.Name()})
		do(below, here)
		allCommands(below, here, do)
	}
}

// TestWrongUse gives each command flags and arguments that are wrong: each says so with the exit status of a wrong use.
func TestWrongUse(t *testing.T) {
	missing := "--kubeconfig=" + t.TempDir() + "/none"
	wrong := func(want string, args ...string) {
		t.Helper()
		code, out, said := run(t, nil, append(args, missing)...)
		if code != exitError || !strings.Contains(said, want) || out != "" {
			t.Errorf("%v: exit status %d, %q; want %q", args, code, out+said, want)
		}
	}
	r := &root{flags: genericclioptions.NewConfigFlags(true)}
	allCommands(r.rootCommand(), nil, func(cmd *cobra.Command, path []string) {
		least, most := 0, -1
		for n := 3; n >= 0 && cmd.Args != nil; n-- {
			switch err := cmd.Args(cmd, make([]string, n)); {
			case err == nil:
				least = n
			case least == 0:
				most = n - 1
			}
		}
		named := slices.Concat(path, slices.Repeat([]string{"web"}, least))
		with := func(more ...string) []string { return slices.Concat(named, more) }
		wrong("unknown flag: --bogus", with("--bogus")...)
		wrong(`--color: "pink" is none of`, with("--color", "pink")...)
		if least > 0 {
			wrong("no argument is given; write", path...)
		}
		if most >= 0 && cmd.Name() != "help" {
			wrong("; write \"kubectl happ "+strings.Join(path, " "), with("x", "y", "z")...)
		}
		cmd.Flags().VisitAll(func(flag *pflag.Flag) {
			switch flag.Value.Type() {
			case "int", "int64", "duration":
				wrong("invalid argument", with("--"+flag.Name, "abc")...)
				negative := map[string]string{"int": "-1", "int64": "-1", "duration": "-1s"}[flag.Value.Type()]
				wrong("--"+flag.Name+": "+negative+" is less than", with("--"+flag.Name, negative)...)
			case "bool":
				wrong("invalid argument", with("--"+flag.Name+"=abc")...)
			}
		})
	})
	for want, args := range map[string][]string{
		"--to: 0 is less than 1":                                {"rollback", "web", "--to", "0"},
		"--to: 0 is less":                                       {"plan", "web", "--to", "0"},
		"--revision: 0 is less":                                 {"history", "web", "--revision", "0"},
		`--diff: "0..1" is not A..B`:                            {"history", "web", "--diff", "0..1"},
		`--diff: "" is not A..B`:                                {"history", "web", "--diff", ""},
		"--diff and --revision are mutually":                    {"history", "web", "--diff", "1..2", "--revision", "1"},
		"--part goes with --to":                                 {"plan", "web", "--part", "front"},
		"--part goes with":                                      {"plan", "-f", "app.yaml", "--part", "front"},
		"--watch shows text, and --output json is data":         {"list", "-w", "-o", "json"},
		"--watch shows text, and --output yaml is data":         {"list", "-w", "-o", "yaml"},
		"--watch shows text, and --output name is data":         {"list", "-w", "-o", "name"},
		"--watch shows text, and --output json":                 {"tree", "web", "-w", "-o", "json"},
		"--watch shows text, and --output yaml":                 {"tree", "web", "-w", "-o", "yaml"},
		"--watch shows text, and":                               {"why", "web", "-w", "-o", "json"},
		"--watch shows text":                                    {"why", "web", "-w", "-o", "yaml"},
		`--wave: "0" is neither`:                                {"refresh", "--all", "--wave", "0"},
		"names and --all":                                       {"refresh", "web", "--all"},
		"add --all":                                             {"refresh"},
		"go with --all":                                         {"refresh", "web", "-A"},
		"--chunk-size: -1 is less than 0":                       {"list", "--chunk-size", "-1"},
		"2 arguments are given: a b; write ":                    {"plan", "a", "b"},
		`--output: "wide" is none of json`:                      {"why", "web", "-o", "wide"},
		"--timeout: -1s is less than 0":                         {"wait", "web", "--timeout", "-1s"},
		`unknown command "rollbck"`:                             {"rollbck", "web"},
		`name either a resource, or files`:                      {"plan"},
		`--for: "luck" is none of`:                              {"wait", "web", "--for", "luck"},
		"2 arguments are given: a b; write \"kubectl happ list": {"list", "a", "b"},
		`--state: "luck" is no state`:                           {"list", "--state", "failing,luck"},
		`--sort-by: "luck" is none of need`:                     {"list", "--sort-by", "luck"},
		`"csh" is none of bash`:                                 {"completion", "csh"},
		"--events: -3 is less than 0":                           {"why", "web", "--events", "-3"},
		"--limit: -2 is less than 0":                            {"tree", "web", "--limit", "-2"},
		"--depth: -2 is less than 0":                            {"tree", "web", "--depth=-2"},
		"2 arguments are given: web 2; write":                   {"rollback", "web", "2"},
	} {
		wrong(want, args...)
	}
}

// TestWrongNames gives commands what names no resource.
func TestWrongNames(t *testing.T) {
	f := newFakeServer(t, map[string]runtime.Object{"apps/web": &appv1.App{ObjectMeta: objectMeta("web")}})
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"tree", ""}, `"": write NAME or KIND/NAME`}, {[]string{"tree", "/x"}, `"/x": write NAME or KIND/NAME`},
		{[]string{"why", "app/"}, `"app/": write NAME or KIND/NAME`}, {[]string{"wait", "a/b/c"}, `"a/b/c": write NAME or KIND/NAME`},
		{[]string{"pause", "web", ""}, `"": write NAME or KIND/NAME`}, {[]string{"why", "node/x"}, `"node" is no kind that belongs to`},
		{[]string{"import", "statefulset/web"}, "write NAME or deployment/NAME"}, {[]string{"import", "deployment/a/b"}, "write NAME or deployment/NAME"},
		{[]string{"import"}, "--all, --selector or --filename"}, {[]string{"import", "-l", "a=b=c"}, "--selector"},
		{[]string{"hold", "web", "--to", "0"}, "--to: 0 is less than 1"}, {[]string{"hold", "web", "--to", "-4"}, "--to: -4 is less than 1"},
		{[]string{"hold", "web", "--to", ""}, "--to: name a revision"},
	} {
		if code, out, said := f.run(t, c.args...); code != exitError || !strings.Contains(said, c.want) || out != "" || len(f.writes) > 0 {
			t.Errorf("%v: exit status %d, %q; want %q", c.args, code, out+said, c.want)
		}
	}
}

// TestHelp checks that each command is in a group of the help and has examples, which begin with commands that there are.
func TestHelp(t *testing.T) {
	r := &root{flags: genericclioptions.NewConfigFlags(true)}
	top := r.rootCommand()
	for _, cmd := range top.Commands() {
		if cmd.GroupID == "" || strings.TrimSpace(cmd.Example) == "" {
			t.Errorf("%s has the group %q and the examples %q", cmd.Name(), cmd.GroupID, cmd.Example)
		}
		for line := range strings.Lines(cmd.Example) {
			words := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), r.programName()))
			if len(words) == 0 || words[0] != cmd.Name() {
				t.Errorf("%s has the example %q", cmd.Name(), line)
			}
		}
	}
	for _, group := range helpGroups {
		for _, name := range group.commands {
			if found, _, err := top.Find([]string{name}); err != nil || found == top {
				t.Errorf("there is no command %s", name)
			}
		}
	}
}

// TestListed chooses rows by kind, name, state and group, and sorts them.
func TestListed(t *testing.T) {
	box := &appv1.ModelBox{ObjectMeta: objectMeta("search")}
	box.Labels = map[string]string{"team": "ml"}
	lists := map[string]runtime.Object{
		"apps": &appv1.AppList{Items: []appv1.App{{ObjectMeta: objectMeta("web")}}}, "modelboxes": &appv1.ModelBoxList{Items: []appv1.ModelBox{*box}},
	}
	f := newFakeServer(t, nil)
	f.answer = func(q *http.Request, _ string) runtime.Object { return lists[path.Base(q.URL.Path)] }
	for want, args := range map[string][]string{
		"app web": {"list", "app", "--no-headers"}, "app web ": {"list", "web", "--no-headers"}, "modelbox search": {"list", "mbox/search", "--no-headers"},
		"modelbox search team=ml": {"list", "modelboxes", "--show-labels", "--no-headers"}, "No resources found.": {"list", "--state", "ready"},
	} {
		code, out, said := f.run(t, args...)
		for word := range strings.FieldsSeq(want) {
			if code != 0 || !strings.Contains(strings.ToLower(out), strings.ToLower(word)) {
				t.Errorf("%v: exit status %d, want %q in\n%s%s", args, code, word, out, said)
			}
		}
		if lines := strings.Count(out, "\n"); lines != 1 {
			t.Errorf("%v: %d lines\n%s", args, lines, out)
		}
	}
	if _, out, _ := f.run(t, "list", "--state", "unobserved,ready"); strings.Count(out, "\n") != 3 {
		t.Errorf("all resources:\n%s", out)
	}
}

// TestExitBeforeWait has errors before a wait begins: with --wait or --wave, they have the exit status of an error, and not of a failed rollout.
func TestExitBeforeWait(t *testing.T) {
	deleting := map[string]runtime.Object{"apps/web": leaving()}
	for name, c := range map[string]struct {
		objects map[string]runtime.Object
		args    []string
	}{
		"rollback":          {nil, []string{"rollback", "web", "-y"}},
		"rollback, deleted": {deleting, []string{"rollback", "web", "-y"}},
		"unhold":            {nil, []string{"unhold", "web", "-y"}},
		"promote":           {nil, []string{"promote", "web", "-y"}},
		"resume":            {nil, []string{"resume", "web"}},
		"refresh":           {nil, []string{"refresh", "web", "-y"}},
		"refresh, deleted":  {deleting, []string{"refresh", "web", "-y"}},
		"restart":           {deleting, []string{"restart", "web", "-y"}},
		"not confirmed":     {deleting, []string{"restart", "web"}},
	} {
		waiting := map[string]int{"": 1, "--wait": exitError, "--wait=false": 1}
		if c.args[0] == "refresh" {
			waiting["--wave=1"] = exitError
		}
		for flag, want := range waiting {
			args := c.args
			if flag != "" {
				args = append(slices.Clone(args), flag)
			}
			if code, out, said := newFakeServer(t, c.objects).run(t, args...); code != want {
				t.Errorf("%s %s: exit status %d, want %d\n%s%s", name, flag, code, want, out, said)
			}
		}
	}
}
