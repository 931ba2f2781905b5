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
	"regexp"
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
	affects, err := affected(names)
	if err != nil {
		return err
	}
	files := map[string]string{"Chart.yaml": chart(version)}
	values, schema, err := valuesOf(names, image, base["Deployment/app-operator-controller-manager"])
	if err != nil {
		return err
	}
	if manager := base["Deployment/app-operator-controller-manager"]; !strings.Contains(manager, "value: "+memoryLimit) || !strings.Contains(manager, "memory: "+containerLimit) {
		return fmt.Errorf("the manager has another GOMEMLIMIT than %s, or another memory limit than %s", memoryLimit, containerLimit)
	}
	files["values.yaml"], files["values.schema.json"] = values, schema
	files[filepath.Join("templates", "_helpers.tpl")] = helpers
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

// affected returns for each object the components that change it: what they change by themselves, and what they change with all other
// components. Some objects are there only with two components, such as the binding to Secrets in one namespace.
func affected(names []string) (map[string][]string, error) {
	affects := map[string][]string{}
	for _, name := range names {
		others := slices.DeleteFunc(slices.Clone(names), func(other string) bool { return other == name })
		for _, pair := range [][2][]string{{nil, {name}}, {others, names}} {
			without, err := render(pair[0]...)
			if err != nil {
				return nil, err
			}
			with, err := render(pair[1]...)
			if err != nil {
				return nil, err
			}
			for _, objects := range []map[string]string{without, with} {
				for id := range objects {
					if without[id] != with[id] && !slices.Contains(affects[id], name) {
						affects[id] = append(affects[id], name)
					} else if affects[id] == nil {
						affects[id] = []string{}
					}
				}
			}
		}
	}
	return affects, nil
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

// variable matches a variable of the manager that a value can replace; all others are the component's or the operator's. resources matches
// the requests and limits of a container.
var (
	variable  = regexp.MustCompile(`(- name: (GOGC|GOMEMLIMIT)\n +value: )"?([^"\n]+)"?`)
	resources = regexp.MustCompile(`\n        resources:\n(          .*\n)+`)
)

// schedulingValues are the values of all pods, by their fields in the spec of a pod.
var schedulingValues = []string{"affinity", "imagePullSecrets", "nodeSelector", "priorityClassName", "tolerations"}

func scheduling() string {
	var b strings.Builder
	for _, value := range schedulingValues {
		b.WriteString(whereNotEmpty(value))
	}
	return b.String()
}

// memoryLimit is GOMEMLIMIT in the Deployment of the manager, whose memory limit is containerLimit.
const memoryLimit, containerLimit = "450MiB", "512Mi"

// helpers has the template of GOMEMLIMIT: that of the Deployment for its own memory limit and for a limit without a usual unit, and else nine tenths
// of the limit, in bytes.
const helpers = `{{- define "app-operator.memoryLimit" -}}
{{- $limit := dig "limits" "memory" "" (.Values.resources | default dict) | toString -}}
{{- $unit := regexFind "[A-Za-z]+$" $limit -}}
{{- if and (regexMatch "^[0-9]+(Mi|Gi|M|G)$" $limit) (ne $limit "` + containerLimit + `") -}}
{{- $bytes := get (dict "Mi" 1048576 "Gi" 1073741824 "M" 1000000 "G" 1000000000) $unit | int64 -}}
{{- div (mul (trimSuffix $unit $limit | int64) $bytes 9) 10 -}}
{{- else -}}
` + memoryLimit + `
{{- end -}}
{{- end -}}
`

// whereNotEmpty returns a line that adds a value to the spec of pods, where it is not empty.
func whereNotEmpty(value string) string {
	return fmt.Sprintf("\n{{- with .Values.%[1]s }}{{ dict %[1]q . | toYaml | nindent 6 }}{{- end }}", value)
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
	if strings.Contains(text, "\nkind: Deployment\n") {
		text = strings.Replace(text, "\n      serviceAccountName:", scheduling()+"\n      serviceAccountName:", 1)
	}
	if strings.Contains(text, "\nkind: Deployment\n") && strings.Contains(text, "\n        name: manager\n") {
		text = strings.Replace(text, "\n        env:\n", "\n{{- with .Values.args }}{{ toYaml . | nindent 8 }}{{- end }}\n        env:\n", 1)
		text = variable.ReplaceAllString(text, `$1{{ (.Values.env | default dict).$2 | default "$3" | quote }}`)
		text = strings.Replace(text, "\n        image: ", `
{{- range $name, $value := omit (.Values.env | default dict) "GOGC" "GOMEMLIMIT" }}{{ list (dict "name" $name "value" $value) | toYaml | nindent 8 }}{{- end }}
        image: `, 1)
		text = strings.Replace(text, `default "`+memoryLimit+`"`, `default (include "app-operator.memoryLimit" .)`, 1)
		text = resources.ReplaceAllString(text, "\n        resources: {{- toYaml .Values.resources | nindent 10 }}\n")
	}
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

// podValues are the values of the pods with their comments, but for the last one.
const podValues = `
# Further flags of the manager, such as --namespace-cache-mib=64. docs/operations.md lists them.
args: []

# Further variables of the manager, and other values of GOGC and GOMEMLIMIT. GOMEMLIMIT follows the memory limit: nine tenths of it.
env: {}

# Of the pods of the manager and of the viewer.
affinity: {}
imagePullSecrets: []
nodeSelector: {}
priorityClassName: ""
tolerations: []

# Requests and limits of the manager. docs/scale.md has the memory for many Apps.
resources:
`

// requestsOf returns the requests and limits in the Deployment of the manager, as YAML inside a value.
func requestsOf(manager string) (string, error) {
	found := resources.FindString(manager)
	if found == "" {
		return "", errors.New("the Deployment of the manager has no requests and limits")
	}
	_, found, _ = strings.Cut(found, "resources:\n")
	return strings.ReplaceAll("\n"+found, "\n        ", "\n")[1:], nil
}

// valuesOf returns the values with the comments of the components, and their schema, which refuses any other. Manager is the Deployment of the manager.
func valuesOf(names []string, image, manager string) (values, schema string, err error) {
	text, object := map[string]any{"type": "string"}, map[string]any{"type": "object"}
	list := func(item map[string]any) map[string]any { return map[string]any{"type": "array", "items": item} }
	properties := map[string]map[string]any{
		"image": text, "viewerProxy": text, "args": list(text), "resources": object, "tolerations": list(object),
		"affinity": object, "nodeSelector": {"type": "object", "additionalProperties": text}, "priorityClassName": text,
		"imagePullSecrets": list(map[string]any{"type": "object", "required": []string{"name"}, "properties": map[string]any{"name": text}}),
		// What a component or the operator sets.
		"env": {"type": "object", "additionalProperties": text, "propertyNames": map[string]any{
			"not": map[string]any{"enum": []string{"ENABLE_WEBHOOKS", "POD_NAMESPACE", "WATCH_NAMESPACE"}},
		}},
	}
	requests, err := requestsOf(manager)
	if err != nil {
		return "", "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# The image of the manager and of the viewer.\nimage: %s\n\n# The image of oauth2-proxy in front of the viewer.\nviewerProxy: %s\n", image, proxyImage)
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join("config/components", name, "kustomization.yaml"))
		if err != nil {
			return "", "", err
		}
		comment, _, _ := strings.Cut(string(data), "apiVersion:")
		fmt.Fprintf(&b, "\n%s%s: false\n", comment, components[name])
		properties[components[name]] = map[string]any{"type": "boolean"}
	}
	b.WriteString(podValues + requests)
	// What a chart that has this one as a part hands down.
	properties["global"] = object
	data, err := json.MarshalIndent(map[string]any{
		"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "properties": properties, "additionalProperties": false,
	}, "", "  ")
	return b.String(), string(data) + "\n", err
}
