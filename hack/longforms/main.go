// Command longforms prints a pattern for "go test -run" that matches the tests with a long form: those that reach one of the functions
// of test/fixture which have a short and a long one, in the folders that are given. make test-long runs them: all others are the same
// in make test, and would run twice.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// forms are the identifiers of test/fixture that depend on which form is asked for.
var forms = []string{"Long", "Of", "Part", "PartOf", "Turns"}

func main() {
	pattern, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintf(os.Stderr, "longforms: %v\n", err)
		os.Exit(1)
	}
	fmt.Fprintln(os.Stdout, pattern)
}

// run returns the pattern for folders. Of one that ends with "/..." all tests are matched: none of them runs in the short form. The pattern
// has no dollar sign, which make would expand.
func run(folders []string) (string, error) {
	var tests []string
	for _, folder := range folders {
		folder, whole := strings.CutSuffix(folder, "/...")
		found, err := longTests(folder, whole)
		if err != nil {
			return "", err
		}
		if len(found) == 0 {
			return "", fmt.Errorf("no test in %s has a long form", folder)
		}
		tests = append(tests, found...)
	}
	slices.Sort(tests)
	return fmt.Sprintf(`^(%s)\b`, strings.Join(slices.Compact(tests), "|")), nil
}

// longTests returns the names of the tests of a folder that have a long form, in order, or of all. A test has a long form if its text,
// or that of a declaration of the package that it names directly or through others, names one of the forms. Methods are known by their
// name alone, so that a test without a long form can be among them, and none with one is left out.
func longTests(folder string, all bool) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		return nil, err
	}
	names := map[string]map[string]bool{}
	long := map[string]bool{}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, decl := range parsed.Decls {
			readDeclaration(decl, names, long)
		}
	}
	for before := -1; before != len(long); {
		before = len(long)
		for declared, uses := range names {
			for used := range uses {
				if long[used] {
					long[declared] = true
				}
			}
		}
	}
	tests := slices.Collect(maps.Keys(long))
	if all {
		tests = slices.Collect(maps.Keys(names))
	}
	slices.Sort(tests)
	return slices.DeleteFunc(tests, func(name string) bool { return !strings.HasPrefix(name, "Test") || name == "TestMain" }), nil
}

// readDeclaration adds the names that a declaration uses, and marks the declaration as long if one of them is a form.
func readDeclaration(decl ast.Decl, names map[string]map[string]bool, long map[string]bool) {
	used, isLong := map[string]bool{}, false
	ast.Inspect(decl, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			x, ok := n.X.(*ast.Ident)
			isLong = isLong || ok && x.Name == "fixture" && slices.Contains(forms, n.Sel.Name)
		case *ast.Ident:
			used[n.Name] = true
		}
		return true
	})
	for _, name := range declaredBy(decl) {
		if names[name] == nil {
			names[name] = map[string]bool{}
		}
		maps.Copy(names[name], used)
		if isLong {
			long[name] = true
		}
	}
}

// declaredBy returns the names of a declaration, none of an import.
func declaredBy(decl ast.Decl) (declared []string) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		return []string{d.Name.Name}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.ValueSpec:
				for _, name := range s.Names {
					declared = append(declared, name.Name)
				}
			case *ast.TypeSpec:
				declared = append(declared, s.Name.Name)
			}
		}
	}
	return declared
}
