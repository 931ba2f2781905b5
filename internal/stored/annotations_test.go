package stored

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"testing"

	appv1 "huolala.cn/app-operator/api/v1"
)

// TestUserAnnotationsAreRead checks that each annotation that a user sets is read by reconciles, but for the request of a plan.
func TestUserAnnotationsAreRead(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../../api/v1/annotations.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var named []string
	for _, declared := range file.Decls[0].(*ast.GenDecl).Specs { // The constants that a user sets come first.
		for _, value := range declared.(*ast.ValueSpec).Values {
			name, err := strconv.Unquote(value.(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			named = append(named, name)
		}
	}
	want := slices.DeleteFunc(slices.Sorted(slices.Values(named)), func(name string) bool { return name == appv1.AnnotationPlan })
	if got := ReadAnnotations(); !slices.Equal(got, want) || len(got) < 6 {
		t.Errorf("reconciles read %q; users set %q", got, want)
	}
}
