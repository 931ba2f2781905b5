package definitions

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// sourceFile is a parsed Go file that is not generated.
type sourceFile struct {
	path   string
	syntax *ast.File
}

// goSources is the hand-written Go code of the tree.
type goSources struct {
	positions *token.FileSet
	files     []sourceFile
	// declared are the identifiers of each folder, in its files of all packages; all are those of all folders, and the words of
	// the texts in code: fields of custom resources, keys, flags.
	declared map[string]map[string]bool
	all      map[string]bool
	// packages are the identifiers of each package name: of the folders that have such packages.
	packages map[string]map[string]bool
}

// word matches what may be an identifier in a text.
var word = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]*`)

// parseSources parses all Go code of the tree. Generated code declares identifiers, and its comments are not of interest.
func parseSources(t *testing.T) *goSources {
	t.Helper()
	s := &goSources{token.NewFileSet(), nil, map[string]map[string]bool{}, map[string]bool{}, map[string]map[string]bool{}}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "bin" || entry.Name() == "node_modules"):
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, ".go"):
			return nil
		}
		file, err := parser.ParseFile(s.positions, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		s.declare(path, file)
		if !ast.IsGenerated(file) {
			s.files = append(s.files, sourceFile{path, file})
		}
		return nil
	})
	if err != nil || len(s.files) < 300 {
		t.Fatalf("%d Go files, want at least 300 (%v)", len(s.files), err)
	}
	return s
}

// declare notes the identifiers of a file, and the words of its texts.
func (s *goSources) declare(path string, file *ast.File) {
	name := strings.TrimSuffix(file.Name.Name, "_test")
	into, named := s.declared[filepath.Dir(path)], s.packages[name]
	if into == nil {
		into = map[string]bool{}
		s.declared[filepath.Dir(path)] = into
	}
	if named == nil {
		named = map[string]bool{}
		s.packages[name] = named
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			into[n.Name], named[n.Name], s.all[n.Name] = true, true, true
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); err == nil {
				for _, each := range word.FindAllString(text, -1) {
					s.all[each] = true
				}
			}
		}
		return true
	})
}

// exists reports whether an identifier that a comment of a folder names exists: in the folder's package, or, with the name of a
// package before it, in that one. What is not of this tree is taken to exist.
func (s *goSources) exists(folder, name string) bool {
	for {
		first, rest, qualified := strings.Cut(name, ".")
		if !qualified {
			return s.declared[folder][first]
		}
		if !s.declared[folder][first] {
			named, ours := s.packages[first]
			return !ours || named[strings.SplitN(rest, ".", 2)[0]]
		}
		if s.packages[first] == nil && rest != "" { // A type and its member, or an imported package.
			return true
		}
		name = rest
	}
}

var (
	// seeName matches a reference that names an identifier and nothing else: an identifier with a capital letter inside, or any word
	// that ends the reference.
	seeName = regexp.MustCompile(`(?i:\bsee) ([A-Za-z_][\w.]*)([.,;)]|$|\s)`)
	// docLink matches a link of a doc comment.
	docLink = regexp.MustCompile(`(?:^|[\s(])\[([A-Za-z_][\w.]*)\](?:[\s.,;:)]|$)`)
	// camel matches a word with a capital letter after a small one, which is an identifier or a field of an object.
	camel = regexp.MustCompile(`(?:^|[\s("])([a-z]+[a-z0-9]*[A-Z][A-Za-z0-9]*)(?:[\s.,;:)"]|$)`)
)

// inText are words after "see" that name a place in the text.
var inText = map[string]bool{"below": true, "above": true, "there": true, "it": true, "them": true, "also": true, "this": true, "what": true, "why": true}

// TestCommentsNameWhatExists checks what comments refer to: "see name", links, words in camel case, and the first word of a doc comment
// are the names of identifiers that exist.
func TestCommentsNameWhatExists(t *testing.T) {
	s := parseSources(t)
	for _, file := range s.files {
		folder := filepath.Dir(file.path)
		for _, group := range file.syntax.Comments {
			lines := slices.DeleteFunc(strings.Split(group.Text(), "\n"), func(line string) bool { return strings.HasPrefix(line, "+") }) // Markers.
			text := strings.Join(strings.Fields(strings.Join(lines, " ")), " ")
			for _, name := range s.namesWithout(folder, text) {
				t.Errorf("%s: the comment names %s, which does not exist", s.positions.Position(group.Pos()), name)
			}
		}
		for doc, names := range docsOf(file.syntax) {
			if first := firstWord(doc.Text()); strayName(first, names) {
				t.Errorf("%s: the comment is about %s, and the declaration is of %s", s.positions.Position(doc.Pos()), first, strings.Join(names, ", "))
			}
		}
	}
}

// namesWithout returns the names in a comment of a folder that nothing has.
func (s *goSources) namesWithout(folder, text string) []string {
	missing := map[string]bool{}
	for _, match := range seeName.FindAllStringSubmatch(text, -1) {
		name := strings.TrimRight(match[1], ".")
		ends := match[2] != " " || strings.HasSuffix(match[1], ".")
		if !ends && !camel.MatchString(name) || inText[name] || strings.ToUpper(name) == name {
			continue
		}
		if last := name[strings.LastIndex(name, ".")+1:]; last == "md" || last == "go" || last == "yaml" || last == "io" || last == "txt" || last == "sh" {
			continue
		}
		if !s.exists(folder, name) {
			missing[name] = true
		}
	}
	for _, match := range docLink.FindAllStringSubmatch(text, -1) {
		if !s.exists(folder, match[1]) {
			missing[match[1]] = true
		}
	}
	for _, match := range camel.FindAllStringSubmatch(text, -1) {
		if !s.all[match[1]] {
			missing[match[1]] = true
		}
	}
	return slices.Sorted(maps.Keys(missing))
}

// docsOf returns the doc comments of a file, with the names that each one is about.
func docsOf(file *ast.File) map[*ast.CommentGroup][]string {
	docs := map[*ast.CommentGroup][]string{}
	add := func(doc *ast.CommentGroup, names ...*ast.Ident) {
		if doc != nil {
			for _, name := range names {
				docs[doc] = append(docs[doc], name.Name)
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			add(n.Doc, n.Name)
		case *ast.GenDecl:
			if n.Lparen.IsValid() { // The comment of a block may begin with any word.
				break
			}
			for _, spec := range n.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					add(n.Doc, spec.Name)
				case *ast.ValueSpec:
					add(n.Doc, spec.Names...)
				}
			}
		case *ast.TypeSpec:
			add(n.Doc, n.Name)
		case *ast.ValueSpec:
			add(n.Doc, n.Names...)
		case *ast.Field:
			add(n.Doc, n.Names...)
		}
		return true
	})
	return docs
}

// firstWord returns the first word of a comment, empty if it is no identifier.
func firstWord(text string) string {
	first, _, _ := strings.Cut(strings.TrimSpace(text), " ")
	first = strings.TrimRight(strings.TrimSpace(first), ",:.;")
	if word.FindString(first) != first {
		return ""
	}
	return first
}

// strayName reports whether the first word of a doc comment is the name of something else: a word that begins with a small letter, or
// has a capital letter after a small one.
func strayName(first string, names []string) bool {
	if first == "" || slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, first) }) { // As the JSON has it.
		return false
	}
	small := first[0] >= 'a' && first[0] <= 'z'
	return small || inner.MatchString(first)
}

// inner matches a capital letter after a small one.
var inner = regexp.MustCompile(`[a-z][A-Z]`)

// TestNamesWithout has comments that name what exists, and what does not.
func TestNamesWithout(t *testing.T) {
	s := &goSources{
		declared: map[string]map[string]bool{"a": {"Known": true, "known": true}},
		packages: map[string]map[string]bool{"b": {"Other": true}},
		all:      map[string]bool{"someName": true},
	}
	for text, want := range map[string]string{
		"It does; see known.":           "[]",
		"It does; see lost.":            "[lost]",
		"It does (see Lost).":           "[Lost]",
		"See the manual.":               "[]",
		"See b.Other, and see b.Lost.":  "[b.Lost]",
		"See docs/app.md and README.md": "[]",
		"As [Known] and [Lost] do":      "[Lost]",
		"A list[known] of items":        "[]",
		"Calls someName and lostName.":  "[lostName]",
		"see below":                     "[]",
	} {
		if got := fmt.Sprint(s.namesWithout("a", text)); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
