// Command crdtrim finishes the definitions that controller-gen makes: it takes the texts of
// Kubernetes' own types out, and the defaults of fields that a rule refuses or that are in lists,
// makes each field refuse what its Go type cannot decode, and holds each definition to a size.
//
// controller-gen repeats the whole documentation of every embedded type. With the pod's types in a
// spec that makes a definition of half a megabyte, too large for kubectl's client-side apply and,
// with some more such fields, for etcd. What users look up with `kubectl explain app.spec` are our
// own fields, so their texts stay; a core type's are one `kubectl explain pod.spec` away.
//
//	crdtrim IN OUT
//
// reads IN/*.yaml, writes the files of the same names in OUT, and fails if one is over the budget.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	appv1 "huolala.cn/app-operator/api/v1"
)

// budget is the most bytes that a definition may have, as compact JSON. Client-side apply keeps a
// copy in an annotation; all annotations together may have 256 KiB.
const budget = 250_000

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "crdtrim:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	if len(args) != 2 {
		return fmt.Errorf("usage: crdtrim IN OUT")
	}
	scheme := runtime.NewScheme()
	if err := appv1.AddToScheme(scheme); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(args[0], "*.yaml"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("no definitions in %s", args[0])
	}
	types := typesOf(scheme)
	for _, file := range files {
		if err := finish(file, filepath.Join(args[1], filepath.Base(file)), types, out); err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(file), err)
		}
	}
	return nil
}

// typesOf returns a function that looks up the Go type of a kind.
func typesOf(scheme *runtime.Scheme) func(schema.GroupVersionKind) (reflect.Type, error) {
	return func(gvk schema.GroupVersionKind) (reflect.Type, error) {
		t, ok := scheme.AllKnownTypes()[gvk]
		if !ok {
			return nil, fmt.Errorf("no Go type is registered for %s", gvk)
		}
		return t, nil
	}
}

// finish trims the definition in the file from, and writes it to the file to if it is within the budget.
func finish(from, to string, types func(schema.GroupVersionKind) (reflect.Type, error), out io.Writer) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	crd, err := parse(text)
	if err != nil {
		return err
	}
	before, err := size(crd)
	if err != nil {
		return err
	}
	if err := trimCRD(crd, types); err != nil {
		return err
	}
	after, err := size(crd)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s: %d bytes of JSON (budget %d, untrimmed %d)\n", filepath.Base(to), after, budget, before)
	if after > budget {
		return fmt.Errorf("%d bytes of JSON are over the budget of %d", after, budget)
	}
	text, err = render(crd)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o644)
}

// parse reads YAML with its numbers as they stand: a float64 would round large ones.
func parse(text []byte) (map[string]any, error) {
	asJSON, err := yaml.YAMLToJSON(text)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(asJSON))
	decoder.UseNumber()
	var crd map[string]any
	err = decoder.Decode(&crd)
	return crd, err
}

// render writes it as controller-gen does: a document of its own, keys sorted.
func render(crd map[string]any) ([]byte, error) {
	asJSON, err := json.Marshal(crd)
	if err != nil {
		return nil, err
	}
	text, err := yaml.JSONToYAML(asJSON)
	return append([]byte("---\n"), text...), err
}

func size(crd map[string]any) (int, error) {
	asJSON, err := json.Marshal(crd)
	return len(asJSON), err
}
