package definitions

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// root is the repository's folder, seen from this one.
const root = "../.."

// declared returns the string constants of conditions.go whose names begin with the prefix, by name.
func declared(t *testing.T, prefix string) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, "api/v1/conditions.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	constants := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		for i, name := range spec.Names {
			if strings.HasPrefix(name.Name, prefix) {
				constants[name.Name] = literal(spec.Values[i])
			}
		}
		return true
	})
	if len(constants) == 0 {
		t.Fatalf("conditions.go declares no %s…", prefix)
	}
	return constants
}

// literal returns the value of a string literal, empty for any other expression.
func literal(expr ast.Expr) string {
	lit, ok := expr.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return ""
	}
	value, err := strconv.Unquote(lit.Value)
	if err != nil {
		return ""
	}
	return value
}

// sources calls visit with each file of the manager's own code, tests and api/v1 itself aside.
func sources(t *testing.T, visit func(files *token.FileSet, file *ast.File)) {
	t.Helper()
	files := token.NewFileSet()
	for _, dir := range []string{"api/v1/validation", "controllers", "internal", "resource"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(files, path, nil, 0)
			if err == nil {
				visit(files, file)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestReasonsAreConstants checks that no reason is written as a string: a status speaks a vocabulary that is declared in
// one place, and documented.
func TestReasonsAreConstants(t *testing.T) {
	constructors := []string{"Stalled", "Waiting"}
	sources(t, func(files *token.FileSet, file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			var reason ast.Expr
			switch n := n.(type) {
			case *ast.KeyValueExpr:
				if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Reason" {
					reason = n.Value
				}
			case *ast.CallExpr:
				if called := callee(n); slices.Contains(constructors, called) && len(n.Args) > 0 {
					reason = n.Args[0]
				}
			}
			if reason != nil && literal(reason) != "" {
				t.Errorf("%s: reason %q is a string; declare it in api/v1/conditions.go", files.Position(reason.Pos()), literal(reason))
			}
			return true
		})
	})
}

// callee returns the name of the function that is called, without its package.
func callee(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

// TestReasonsAreUsed checks that no reason is declared that nothing gives: who reads of it would wait for it in vain.
func TestReasonsAreUsed(t *testing.T) {
	unused := declared(t, "")
	sources(t, func(_ *token.FileSet, file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			if selector, ok := n.(*ast.SelectorExpr); ok {
				delete(unused, selector.Sel.Name)
			}
			return true
		})
	})
	for name := range unused {
		t.Errorf("%s is declared in conditions.go and used nowhere", name)
	}
}

// TestReasonsAreDistinct checks that reasons are words that a condition takes, each with one constant.
func TestReasonsAreDistinct(t *testing.T) {
	word := regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`) // The API server takes a little more.
	names := map[string]string{}
	for name, value := range declared(t, "Reason") {
		if !word.MatchString(value) {
			t.Errorf("%s is %q, which is no word in CamelCase", name, value)
		}
		if other := names[value]; other != "" {
			t.Errorf("%s and %s are both %q", name, other, value)
		}
		names[value] = name
	}
}

// TestStatusIsDocumented compares docs/status.md with the code: every condition and every reason has a row of a table,
// and no row speaks of one that is not there.
func TestStatusIsDocumented(t *testing.T) {
	const path = "docs/status.md"
	page, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	documented := rows(string(page))
	want := map[string][]string{} // "Ready" is the name of a condition and of a reason.
	for _, prefix := range []string{"Condition", "Reason"} {
		for name, value := range declared(t, prefix) {
			want[value] = append(want[value], name)
		}
	}
	for value, names := range want {
		found := documented[value]
		if len(found) != len(names) {
			t.Errorf("%s has %d rows for `%s` (%s), want %d: what it means, and what to do about it at 3 a.m.",
				path, len(found), value, strings.Join(names, ", "), len(names))
		}
		for _, columns := range found {
			if slices.Contains(columns, "") {
				t.Errorf("%s: the row for `%s` has an empty column", path, value)
			}
		}
	}
	for value := range documented {
		if _, found := want[value]; !found {
			t.Errorf("%s has a row for `%s`, which the code does not know", path, value)
		}
	}
}

// rows returns the other columns of all table rows whose first one is a single word in backquotes, by the word. Rows of
// events, which have several words or none, are left out.
func rows(page string) map[string][][]string {
	found := map[string][][]string{}
	row := regexp.MustCompile("^\\| `([A-Za-z_0-9]+)` \\|(.*)\\|$")
	for line := range strings.Lines(page) {
		match := row.FindStringSubmatch(strings.TrimSpace(line))
		if match == nil {
			continue
		}
		var columns []string
		for column := range strings.SplitSeq(match[2], "|") {
			columns = append(columns, strings.TrimSpace(column))
		}
		found[match[1]] = append(found[match[1]], columns)
	}
	return found
}

// TestMetricsAreDefinedOnce checks that no code but the table of metrics has the name of one: what is generated from the table would
// not know it.
func TestMetricsAreDefinedOnce(t *testing.T) {
	const table = "internal/metrics/definitions.go"
	found := 0
	sources(t, func(files *token.FileSet, file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || !strings.HasPrefix(literal(lit), "app_operator_") {
				return true
			}
			if where := files.Position(lit.Pos()).String(); strings.Contains(filepath.ToSlash(where), table) {
				found++
			} else {
				t.Errorf("%s: define the metric in %s", where, table)
			}
			return true
		})
	})
	if found == 0 {
		t.Errorf("there are no metrics in %s", table)
	}
}
