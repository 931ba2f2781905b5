package definitions

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// measures are the suites that measure time, on a machine that does nothing else; make test has none of them.
var measures = []string{"test/bench/", "test/chaos/", "test/e2e/", "test/gateway/", "test/ui/bench_test.go"}

// timed are the functions that may look at the clock, with the reason why a busy machine does not make them fail.
var timed = map[string]string{
	"test/definitions/timing_test.go TestTimingFaults":                   "its texts are the faults",
	"test/gitops/stage/stage.go Eventually":                              "it waits for a state; the module has no harness",
	"hack/cluster/cluster_test.go eventually":                            "it waits for a state; the module has no harness",
	"test/definitions/schema_test.go decode":                             "the shortest of many tries counts, next to that of an ordinary App",
	"test/integration/plan_test.go TestPlanLatency":                      "it runs by its name alone, and judges nothing",
	"internal/answers/answers_test.go readAll":                           "its time is that of synctest",
	"plugin/ui/viewermemory_test.go ReadSnapshot":                        "its time is that of synctest",
	"plugin/ui/login_test.go TestHostOfPort":                             "its ports are those of requests that no listener gets",
	"internal/guard/server_test.go checkClosing":                         "its time is that of synctest, and stands still for a busy machine",
	"plugin/cli/runlog_test.go passTime":                                 "its tests have the time of synctest",
	"test/workload/configrollout_test.go TestConfigRolloutOfBusyContent": "it counts the pauses of the machine, which raise its bound",
}

// fixedPort matches an address of this machine with a port of its own.
var fixedPort = regexp.MustCompile(`(^|=|//)(127\.0\.0\.1|localhost|0\.0\.0\.0|\[::1?\]):[1-9][0-9]{2,4}(/|$)|address=:[1-9][0-9]{2,4}$`)

// TestTestsHoldOnBusyMachines checks that no test sleeps, fails for a time that was longer than a limit, or listens on a port that another
// program may have. A test waits for a state (harness.Eventually), counts requests (harness.Requests), looks at all states of an object
// (harness.Journal), has the time of synctest or of a clock that it sets, and takes a port of harness.FreePort. That a time was not shorter than
// a limit may be asserted: a busy machine makes it longer.
func TestTestsHoldOnBusyMachines(t *testing.T) {
	files, known := 0, map[string]bool{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		name, _ := filepath.Rel(root, path)
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			if strings.HasPrefix(entry.Name(), ".") && path != root || slices.Contains([]string{"bin", "dist", "testdata"}, entry.Name()) {
				return fs.SkipDir
			}
			return nil
		case !strings.HasSuffix(name, ".go"), !strings.HasSuffix(name, "_test.go") && !strings.HasPrefix(name, "test/"), strings.HasPrefix(name, "test/harness/"):
			return nil
		case slices.ContainsFunc(measures, func(suite string) bool { return strings.HasPrefix(name, suite) }):
			return nil
		}
		files++
		positions := token.NewFileSet()
		file, err := parser.ParseFile(positions, path, nil, 0)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			function, ok := decl.(*ast.FuncDecl)
			if !ok || function.Body == nil {
				continue
			}
			for _, fault := range timingFaults(function) {
				id := name + " " + function.Name.Name
				if known[id] = true; timed[id] == "" {
					t.Errorf("%s:%d: %s: %s", name, positions.Position(fault.at).Line, function.Name.Name, fault.what)
				}
			}
		}
		return nil
	})
	if err != nil || files < 250 {
		t.Fatalf("%d files have tests, want at least 250 (%v)", files, err)
	}
	for id := range timed {
		if !known[id] {
			t.Errorf("%s does not look at the clock: remove it from the list", id)
		}
	}
}

// timingFault is a place in a function that depends on the speed of the machine.
type timingFault struct {
	at   token.Pos
	what string
}

// timingFaults returns the faults of a function. One that has the time of synctest has none.
func timingFaults(function *ast.FuncDecl) (found []timingFault) {
	elapsed, cases, fake := map[string]bool{}, map[ast.Stmt]bool{}, false
	add := func(at ast.Node, what string) { found = append(found, timingFault{at.Pos(), what}) }
	isElapsed := func(e ast.Expr) bool {
		name, ok := e.(*ast.Ident)
		return ok && elapsed[name.Name] || isCall(e, "time", "Since")
	}
	ast.Inspect(function.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			name, ok := n.X.(*ast.Ident)
			fake = fake || ok && name.Name == "synctest"
		case *ast.AssignStmt:
			if name, ok := n.Lhs[0].(*ast.Ident); ok && len(n.Rhs) == 1 && isCall(n.Rhs[0], "time", "Since") {
				elapsed[name.Name] = true
			}
		case *ast.CallExpr:
			if isCall(n, "time", "Sleep") {
				add(n, "it sleeps: wait for a state")
			}
		case *ast.CommClause:
			cases[n.Comm] = true
		case *ast.ExprStmt:
			if receive, ok := n.X.(*ast.UnaryExpr); ok && !cases[n] && receive.Op == token.ARROW && isCall(receive.X, "time", "After") {
				add(n, "it sleeps: wait for a state")
			}
		case *ast.BinaryExpr:
			if longer := n.Op == token.GTR || n.Op == token.GEQ; longer && isElapsed(n.X) {
				add(n, "a limit in wall-clock time, which a busy machine exceeds")
			}
			if shorter := n.Op == token.LSS || n.Op == token.LEQ; shorter && isElapsed(n.Y) {
				add(n, "a limit in wall-clock time, which a busy machine exceeds")
			}
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING && fixedPort.MatchString(text) {
				add(n, "a fixed port, which another program may have: harness.FreePort")
			}
		}
		return true
	})
	if fake {
		return nil
	}
	return found
}

// isCall reports whether an expression calls a function of a package.
func isCall(e ast.Expr, pkg, name string) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return false
	}
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || selector.Sel.Name != name {
		return false
	}
	of, ok := selector.X.(*ast.Ident)
	return ok && of.Name == pkg
}

// TestTimingFaults checks that each kind of fault is found, and that what is right is not.
func TestTimingFaults(t *testing.T) {
	for body, want := range map[string]int{
		`time.Sleep(time.Second)`:   1,
		`<-time.After(time.Second)`: 1,
		`if took := time.Since(began); took > time.Second { t.Error(took) }`:         1,
		`if time.Second <= time.Since(began) { t.Error("late") }`:                    1,
		`http.Get("http://127.0.0.1:8081/readyz")`:                                   1,
		`launch(t, "--metrics-bind-address=:8443")`:                                  1,
		`if took := time.Since(began); took < time.Second { t.Error(took) }`:         0,
		`select { case <-done: case <-time.After(harness.Patience): t.Fatal("no") }`: 0,
		`net.Listen("tcp", "127.0.0.1:0")`:                                           0,
		`image("registry.example:5000/app")`:                                         0,
		`synctest.Test(t, func(t *testing.T) { time.Sleep(time.Second) })`:           0,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\nfunc f() {\n"+body+"\n}", 0)
		if err != nil {
			t.Fatal(err)
		}
		if found := timingFaults(file.Decls[0].(*ast.FuncDecl)); len(found) != want {
			t.Errorf("%s: %d faults (%v), want %d", body, len(found), found, want)
		}
	}
}
