package definitions

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// messagesFile is the file of a package that holds all that its conditions, events, errors and warnings say.
const messagesFile = "messages.go"

// sentence matches a text of three words or more, that a person is meant to read.
var sentence = regexp.MustCompile(`[A-Za-z]{2,}\W*\s\W*[A-Za-z]{2,}\W*\s\W*[A-Za-z]{2,}`)

// TestMessagesStandTogether checks, in each package with a file of messages, that what a user reads is in that file: no other file
// states a sentence in an error of a field, in an error of package reconciler, in a warning, or in a field Message.
func TestMessagesStandTogether(t *testing.T) {
	packages := 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() && entry.Name() != messagesFile {
			return err
		}
		if entry.IsDir() {
			if strings.HasPrefix(entry.Name(), ".") && path != root || entry.Name() == "bin" || entry.Name() == "node_modules" {
				return fs.SkipDir
			}
			return nil
		}
		packages++
		for _, found := range looseMessages(t, filepath.Dir(path)) {
			t.Errorf("%s; move it to %s", found, path)
		}
		return nil
	})
	if err != nil || packages < 8 {
		t.Fatalf("%d packages have a file of messages, want at least 8 (%v)", packages, err)
	}
}

// looseMessages returns the sentences for users that stand outside the file of messages of a package, each with its place.
func looseMessages(t *testing.T, folder string) (found []string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	files := token.NewFileSet()
	for _, path := range paths {
		if name := filepath.Base(path); name == messagesFile || strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			for _, said := range saidBy(n) {
				found = append(found, sentencesIn(files, said)...)
			}
			return true
		})
	}
	return found
}

// saidBy returns the expressions of a node that a user reads.
func saidBy(n ast.Node) []ast.Expr {
	switch n := n.(type) {
	case *ast.KeyValueExpr:
		if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Message" {
			return []ast.Expr{n.Value}
		}
	case *ast.AssignStmt:
		for _, to := range n.Lhs {
			if field, ok := to.(*ast.SelectorExpr); ok && field.Sel.Name == "Message" {
				return n.Rhs
			}
		}
	case *ast.CallExpr:
		switch called := n.Fun.(type) {
		case *ast.Ident:
			if called.Name == "warning" {
				return n.Args
			}
		case *ast.SelectorExpr:
			if from, ok := called.X.(*ast.Ident); ok && (from.Name == "field" || from.Name == "reconciler") {
				return n.Args
			}
		}
	}
	return nil
}

func sentencesIn(files *token.FileSet, said ast.Expr) (found []string) {
	ast.Inspect(said, func(n ast.Node) bool {
		if text, ok := n.(*ast.BasicLit); ok && text.Kind == token.STRING {
			if plain, err := strconv.Unquote(text.Value); err == nil && sentence.MatchString(plain) {
				found = append(found, files.Position(text.Pos()).String()+": "+text.Value)
			}
		}
		return true
	})
	return found
}
