// Command helmchart writes a Helm chart of config/: what `make deploy` applies, with a value for each component that it offers. The
// templates come from what kustomize renders with and without each component, so there is one source, and no component can be in one of
// the two alone.
//
// Usage: helmchart -version VERSION -image IMAGE FOLDER, from the top of the tree.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// components maps the components in config/components to the values that switch them on. additional-instance is missing: such an operator
// needs other names, which an overlay sets.
var components = map[string]string{
	"alerts": "alerts", "cert-manager": "certManager", "dashboards": "dashboards", "namespaced": "namespaced",
	"network-policy": "networkPolicy", "prometheus": "prometheus", "secret-rollout": "secretRollout", "viewer": "viewer",
}

// placeholder is the image in config/manager, proxyImage the image of the proxy in config/components/viewer.
const placeholder, proxyImage = "controller:latest", "quay.io/oauth2-proxy/oauth2-proxy:v7.15.6"

func main() {
	version := flag.String("version", "", "version of the chart")
	image := flag.String("image", "", "image of the manager")
	flag.Parse()
	if flag.NArg() != 1 || *version == "" || *image == "" {
		fmt.Fprintln(os.Stderr, "usage: helmchart -version VERSION -image IMAGE FOLDER")
		os.Exit(2)
	}
	if err := run(flag.Arg(0), *version, *image); err != nil {
		fmt.Fprintln(os.Stderr, "helmchart:", err)
		os.Exit(1)
	}
}

func run(folder, version, image string) error {
	names := slices.Sorted(maps.Keys(components))
	base, err := render()
	if err != nil {
		return err
	}
	// affects are the components that change an object, each by itself.
	affects := map[string][]string{}
	for id := range base {
		affects[id] = nil
	}
	for _, name := range names {
		with, err := render(name)
		if err != nil {
			return err
		}
		for id := range with {
			if _, found := affects[id]; !found {
				affects[id] = nil
			}
		}
		for id := range affects {
			if base[id] != with[id] {
				affects[id] = append(affects[id], name)
			}
		}
	}
	files := map[string]string{"Chart.yaml": chart(version)}
	values, schema, err := valuesOf(names, image)
	if err != nil {
		return err
	}
	files["values.yaml"], files["values.schema.json"] = values, schema
	for id, by := range affects {
		if strings.HasPrefix(id, "Namespace/") {
			continue // Helm installs into an existing namespace.
		}
		text, err := template(id, by)
		if err != nil {
			return err
		}
		if strings.Contains(text, proxyImage[:strings.LastIndex(proxyImage, ":")]) {
			return fmt.Errorf("%s has another image of the proxy than %s", id, proxyImage)
		}
		kind, name, _ := strings.Cut(id, "/")
		files[filepath.Join("templates", strings.ToLower(kind)+"-"+strings.ReplaceAll(name, ".", "-")+".yaml")] = text
	}
	if err := os.MkdirAll(filepath.Join(folder, "templates"), 0o755); err != nil {
		return err
	}
	for path, text := range files {
		err = errors.Join(err, os.WriteFile(filepath.Join(folder, path), []byte(text), 0o644))
	}
	return err
}

// rendered are the results of render by its arguments: several objects ask for the same.
var rendered = map[string]map[string]string{}

// render returns what kustomize makes of config/default with components, by kind and name.
func render(with ...string) (map[string]string, error) {
	key := strings.Join(with, " ")
	if found := rendered[key]; found != nil {
		return found, nil
	}
	cmd := exec.Command("hack/render.sh", append([]string{placeholder}, with...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", cmd, err)
	}
	objects, err := split(out)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", cmd, err)
	}
	rendered[key] = objects
	return objects, nil
}

// split returns the texts of the objects in a stream of YAML documents, by kind and name.
func split(stream []byte) (map[string]string, error) {
	objects := map[string]string{}
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(stream)))
	for {
		text, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, err
		}
		var meta struct {
			Kind     string
			Metadata struct{ Name string }
		}
		if err := yaml.Unmarshal(text, &meta); err != nil {
			return nil, err
		}
		objects[meta.Kind+"/"+meta.Metadata.Name] = strings.TrimSuffix(string(text), "\n")
	}
}

// template returns the template of an object that some components change.
func template(id string, by []string) (string, error) {
	values := make([]string, len(by))
	for b, name := range by {
		values[b] = components[name]
	}
	variants := make([][]string, 1<<len(by))
	for v := range variants {
		var with []string
		for b, name := range by {
			if v>>b&1 == 1 {
				with = append(with, name)
			}
		}
		objects, err := render(with...)
		if err != nil {
			return "", err
		}
		if text := objects[id]; text != "" {
			variants[v] = strings.Split(parametrize(text), "\n")
		}
	}
	return write(merge(variants), values), nil
}

// parametrize replaces the names in config by expressions of Helm. A definition survives the end of its release, because its deletion would
// delete all resources of its kind.
func parametrize(text string) string {
	text = strings.ReplaceAll(text, "{{", `{{ "{{" }}`)
	text = strings.NewReplacer(
		"app-operator-system", "{{ .Release.Namespace }}",
		"image: "+placeholder, "image: {{ .Values.image }}",
		"image: "+proxyImage, "image: {{ .Values.viewerProxy }}",
		"app.kubernetes.io/managed-by: kustomize", "app.kubernetes.io/managed-by: {{ .Release.Service }}",
	).Replace(text)
	if strings.Contains(text, "\nkind: CustomResourceDefinition\n") {
		text = strings.Replace(text, "\n  annotations:\n", "\n  annotations:\n    helm.sh/resource-policy: keep\n", 1)
	}
	return text
}

func chart(version string) string {
	return fmt.Sprintf(`apiVersion: v2
name: app-operator
description: One short YAML per application; the operator creates, restores and reports on the Deployment and the Service.
type: application
version: %s
appVersion: v%s
kubeVersion: ">=1.30.0-0"
`, version, version)
}

// valuesOf returns the values with the comments of the components, and their schema, which refuses any other.
func valuesOf(names []string, image string) (values, schema string, err error) {
	type property struct {
		Type string `json:"type"`
	}
	properties := map[string]property{"image": {"string"}, "viewerProxy": {"string"}}
	var b strings.Builder
	fmt.Fprintf(&b, "# The image of the manager and of the viewer.\nimage: %s\n\n# The image of oauth2-proxy in front of the viewer.\nviewerProxy: %s\n", image, proxyImage)
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join("config/components", name, "kustomization.yaml"))
		if err != nil {
			return "", "", err
		}
		comment, _, _ := strings.Cut(string(data), "apiVersion:")
		fmt.Fprintf(&b, "\n%s%s: false\n", comment, components[name])
		properties[components[name]] = property{"boolean"}
	}
	// What a chart that has this one as a part hands down.
	properties["global"] = property{"object"}
	data, err := json.MarshalIndent(map[string]any{
		"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "properties": properties, "additionalProperties": false,
	}, "", "  ")
	return b.String(), string(data) + "\n", err
}
