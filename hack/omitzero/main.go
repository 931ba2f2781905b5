// Command omitzero finishes the apply configurations that applyconfiguration-gen makes. The generator states omitempty for each
// field, which drops an empty list: with omitzero, as the types state it, networkPolicy.ingress: [] is sent and allows nothing.
//
//	omitzero TYPES CONFIGURATIONS
//
// finds the lists and maps with omitzero in the folder TYPES, and rewrites their fields and With functions in the folder
// CONFIGURATIONS. The command fails without such a field, and if the generator writes a field or a function in another way.
package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "omitzero:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return errors.New("usage: omitzero TYPES CONFIGURATIONS")
	}
	kept, err := findKept(args[0])
	if err != nil {
		return err
	}
	if len(kept) == 0 {
		return fmt.Errorf("no list or map in %s has omitzero; remove this step", args[0])
	}
	for _, f := range kept {
		file := filepath.Join(args[1], strings.ToLower(f.typ)+".go")
		source, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		rewritten, err := keepEmpty(string(source), f)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if err := os.WriteFile(file, []byte(rewritten), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// keptField is a list or a map of a type that is in the JSON if it is empty, and absent only if it is nil.
type keptField struct{ typ, name, json string }

// findKept returns the lists and maps with omitzero of the types in a folder.
func findKept(folder string) ([]keptField, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, err
	}
	var kept []keptField
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if t, ok := n.(*ast.TypeSpec); ok {
				kept = append(kept, keptOf(t)...)
			}
			return true
		})
	}
	return kept, nil
}

// keptOf returns the lists and maps with omitzero of a type.
func keptOf(t *ast.TypeSpec) []keptField {
	body, ok := t.Type.(*ast.StructType)
	if !ok {
		return nil
	}
	var kept []keptField
	for _, f := range body.Fields.List {
		_, list := f.Type.(*ast.ArrayType)
		_, entries := f.Type.(*ast.MapType)
		if !list && !entries || f.Tag == nil {
			continue
		}
		tag := reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json")
		if options := strings.Split(tag, ","); slices.Contains(options[1:], "omitzero") {
			for _, name := range f.Names {
				kept = append(kept, keptField{typ: t.Name.Name, name: name.Name, json: options[0]})
			}
		}
	}
	return kept
}

// The comment that is in each rewritten function.
const emptyIsStated = "\t// Stated even if it is empty, which is not the same as absent.\n"

// keepEmpty returns the source of an apply configuration in which a field has omitzero and its With function sets an empty value if it has
// no arguments.
func keepEmpty(source string, f keptField) (string, error) {
	tag := `json:"` + f.json + `,omitempty"`
	if strings.Count(source, tag) != 1 {
		return "", fmt.Errorf("the field %s has no tag %s", f.name, tag)
	}
	source = strings.Replace(source, tag, `json:"`+f.json+`,omitzero"`, 1)

	list := regexp.MustCompile(`(\) With` + f.name + `\(values \.\.\.\*?(\S+)\) \S+ \{\n)(\tfor i := range values \{\n)`)
	if len(list.FindAllString(source, -1)) == 1 {
		return list.ReplaceAllString(source, "${1}"+emptyIsStated+"\tif b."+f.name+" == nil {\n\t\tb."+f.name+" = []${2}{}\n\t}\n${3}"), nil
	}
	if entries := "\tif b." + f.name + " == nil && len(entries) > 0 {\n"; strings.Count(source, entries) == 1 {
		return strings.Replace(source, entries, emptyIsStated+"\tif b."+f.name+" == nil {\n", 1), nil
	}
	return "", fmt.Errorf("the function With%s is not as the generator writes it", f.name)
}
