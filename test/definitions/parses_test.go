package definitions

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// messageName matches the names of fields and variables that hold the message of a condition, an event or an error.
var messageName = regexp.MustCompile(`^(message|.*[a-z]Message|Message|Overridden)$`)

// looksInto are the functions of package strings that find or cut a part of a text.
var looksInto = []string{
	"Contains", "ContainsAny", "Count", "Cut", "CutPrefix", "CutSuffix", "EqualFold", "Fields", "FieldsFunc", "HasPrefix", "HasSuffix", "Index",
	"IndexAny", "IndexByte", "LastIndex", "Lines", "Split", "SplitAfter", "SplitN", "SplitSeq", "TrimPrefix", "TrimSuffix",
}

// knownParses are the functions that look into a message, with the reason. Messages of the API server have no other form.
var knownParses = map[string]string{
	"isPortTaken":           "words of the API server",
	"podsRejected":          "words of the API server",
	"conflictsOf":           "words of the API server",
	"progressingReplicaSet": "words of the controller of Deployments, which has no field for it; without the name, times decide",
	"KeepPullError":         "the error of a pull that is kept in a later text; nothing is decided by it, and other words cost one write",
	"isOverridden":          "the message of an earlier process, compared with the whole message that this one would write; another text costs one write",
	"stopOf":                "the resources that an earlier message names, compared with those of the present message; other words cost one event",
	"isAdoptable":           "a word of advice; TestAdoptAdvice compares it with all messages that internal/claim and internal/apply have",
	"shortenMessage":        "a shorter text for a line; nothing is decided by it",
}

// TestNoMessageIsParsed checks that the operator and its tools decide nothing by the text of a message that the operator has written:
// reasons and fields are for that, so that a message can get better words. It looks for functions of package strings that are given a
// message.
func TestNoMessageIsParsed(t *testing.T) {
	for _, folder := range []string{"plugin", "webhooks", "controllers", "internal"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			name, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			for _, parse := range parsesOf(t, path) {
				if knownParses[parse.function] == "" {
					t.Errorf("%s: %s looks into a message: %s; decide by a reason or a field", name, parse.function, parse.text)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// parse is a call that looks into a message.
type parse struct{ function, text string }

// parsesOf returns the calls in a file that look into a message.
func parsesOf(t *testing.T, path string) []parse {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var found []parse
	for _, declaration := range file.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if !ok {
			continue
		}
		ast.Inspect(function, func(node ast.Node) bool {
			call, ok := node.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 {
				return true
			}
			called, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || !slices.Contains(looksInto, called.Sel.Name) {
				return true
			}
			if pkg, ok := called.X.(*ast.Ident); ok && pkg.Name == "strings" && isMessage(call.Args[0]) {
				found = append(found, parse{function.Name.Name, fmt.Sprintf("strings.%s", called.Sel.Name)})
			}
			return true
		})
	}
	return found
}

// isMessage reports whether an expression is a message by its name.
func isMessage(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return messageName.MatchString(e.Name)
	case *ast.SelectorExpr:
		return messageName.MatchString(e.Sel.Name)
	case *ast.CallExpr: // Such as strings.TrimPrefix(verdict.Message, x).
		return slices.ContainsFunc(e.Args, isMessage)
	}
	return false
}
