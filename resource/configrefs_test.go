package resource

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// describe returns a reference in one line: its keys, with ! where pods do not start without one, and ? if it is optional.
func describe(r *ConfigReference) string {
	text := r.ID()
	if r.Optional {
		text += "?"
	}
	var keys []string
	for _, key := range slices.Sorted(maps.Keys(r.keys)) {
		if r.keys[key] {
			key += "!"
		}
		keys = append(keys, key)
	}
	if r.all {
		keys = append(keys, "(all)")
	}
	if r.text {
		keys = append(keys, "(text)")
	}
	return text + " " + strings.Join(keys, ",")
}

func TestConfigReferences(t *testing.T) {
	for name, test := range map[string]struct {
		spec string
		want []string
	}{
		"nothing":             {`{containers: [{name: a, env: [{name: A, value: b}]}]}`, nil},
		"one key":             {`{containers: [{name: a, env: [{name: A, valueFrom: {configMapKeyRef: {name: m, key: k}}}]}]}`, []string{"ConfigMap/m k!"}},
		"one key of a Secret": {`{containers: [{name: a, env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k, optional: true}}}]}]}`, []string{"Secret/s? k"}},
		"all variables":       {`{containers: [{name: a, envFrom: [{configMapRef: {name: m}}, {prefix: P_, secretRef: {name: s, optional: true}}]}]}`, []string{"ConfigMap/m (text)", "Secret/s? (text)"}},
		"each container": {`{initContainers: [{name: i, envFrom: [{configMapRef: {name: m}}]}], containers: [{name: a}, {name: b, env: [{name: A, valueFrom: {configMapKeyRef: {name: other, key: k}}}]}]}`,
			[]string{"ConfigMap/m (text)", "ConfigMap/other k!"}},
		"a whole volume":  {`{containers: [{name: a, volumeMounts: [{name: v, mountPath: /a}]}], volumes: [{name: v, configMap: {name: m}}]}`, []string{"ConfigMap/m (all)"}},
		"items":           {`{containers: [{name: a, volumeMounts: [{name: v, mountPath: /a}]}], volumes: [{name: v, secret: {secretName: s, items: [{key: k, path: p}]}}]}`, []string{"Secret/s k!"}},
		"not mounted":     {`{containers: [{name: a}], volumes: [{name: v, configMap: {name: m}}]}`, nil},
		"subPath":         {`{containers: [{name: a, volumeMounts: [{name: v, mountPath: /a/b, subPath: b}]}], volumes: [{name: v, configMap: {name: m}}]}`, []string{"ConfigMap/m b"}},
		"subPath of item": {`{containers: [{name: a, volumeMounts: [{name: v, mountPath: /a, subPath: d}]}], volumes: [{name: v, configMap: {name: m, items: [{key: k, path: d/x}, {key: l, path: e}, {key: m, path: d}]}}]}`, []string{"ConfigMap/m k!,m!"}},
		"subPathExpr":     {`{containers: [{name: a, volumeMounts: [{name: v, mountPath: /a, subPathExpr: $(A)}]}], volumes: [{name: v, configMap: {name: m}}]}`, []string{"ConfigMap/m (all)"}},
		"both ways of mounting": {`{containers: [{name: a, volumeMounts: [{name: v, mountPath: /a, subPath: b}]}, {name: b, volumeMounts: [{name: v, mountPath: /b}]}], volumes: [{name: v, configMap: {name: m}}]}`,
			[]string{"ConfigMap/m (all)"}},
		"projected": {`{containers: [{name: a, volumeMounts: [{name: v, mountPath: /a}]}], volumes: [{name: v, projected: {sources: [{configMap: {name: m}}, {secret: {name: s, optional: true, items: [{key: k, path: p}]}}, {serviceAccountToken: {path: t}}]}}]}`,
			[]string{"ConfigMap/m (all)", "Secret/s? k"}},
		"optional in one place only": {`{containers: [{name: a, envFrom: [{configMapRef: {name: m, optional: true}}], env: [{name: A, valueFrom: {configMapKeyRef: {name: m, key: k}}}, {name: B, valueFrom: {configMapKeyRef: {name: m, key: k, optional: true}}}]}]}`,
			[]string{"ConfigMap/m k!,(text)"}},
		"credentials of the kubelet": {`{imagePullSecrets: [{name: p}], containers: [{name: a, volumeMounts: [{name: v, mountPath: /a}]}], volumes: [{name: v, csi: {driver: d, nodePublishSecretRef: {name: s}}}]}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var template corev1.PodTemplateSpec
			if err := yaml.UnmarshalStrict([]byte(test.spec), &template.Spec); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, r := range ConfigReferences(&template) {
				got = append(got, describe(&r))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestConfigReferencesOfAllTypes compares the types below a pod template that refer to ConfigMaps and Secrets with those that are
// known: a new one of Kubernetes' is either content or it is not.
func TestConfigReferencesOfAllTypes(t *testing.T) {
	content := []string{
		"ConfigMapEnvSource", "ConfigMapKeySelector", "ConfigMapProjection", "ConfigMapVolumeSource",
		"SecretEnvSource", "SecretKeySelector", "SecretProjection", "SecretVolumeSource",
	}
	// Those that the kubelet uses itself, and LocalObjectReference, which is in the above too.
	credentials := []string{
		"AzureFileVolumeSource.SecretName", "CSIVolumeSource.NodePublishSecretRef", "CephFSVolumeSource.SecretRef",
		"CephFSVolumeSource.SecretFile", "CinderVolumeSource.SecretRef", "FlexVolumeSource.SecretRef", "ISCSIVolumeSource.SecretRef", "RBDVolumeSource.SecretRef",
		"ScaleIOVolumeSource.SecretRef", "StorageOSVolumeSource.SecretRef", "PodSpec.ImagePullSecrets",
	}
	found := map[string]bool{}
	visitFields(reflect.TypeFor[corev1.PodTemplateSpec](), map[reflect.Type]bool{}, func(typ reflect.Type, f reflect.StructField) {
		below := f.Type
		for below.Kind() == reflect.Pointer || below.Kind() == reflect.Slice {
			below = below.Elem()
		}
		switch {
		case strings.HasPrefix(below.Name(), "ConfigMap") || strings.HasPrefix(below.Name(), "Secret") && below.Name() != "SecretReference":
			found[below.Name()] = true
		case strings.Contains(f.Name, "Secret") || strings.Contains(f.Name, "ConfigMap"):
			if !slices.Contains(content, typ.Name()) {
				found[typ.Name()+"."+f.Name] = true
			}
		}
	})
	want := slices.Sorted(slices.Values(slices.Concat(content, credentials)))
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(found))); diff != "" {
		t.Errorf("references below a pod template (-known +found):\n%s", diff)
	}
}

// visitFields visits each exported field of a type and of the types below it, each type once.
func visitFields(typ reflect.Type, seen map[reflect.Type]bool, visit func(of reflect.Type, f reflect.StructField)) {
	for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice || typ.Kind() == reflect.Map {
		typ = typ.Elem()
	}
	if typ.Kind() != reflect.Struct || seen[typ] {
		return
	}
	seen[typ] = true
	for i := range typ.NumField() {
		if f := typ.Field(i); f.IsExported() {
			visit(typ, f)
			visitFields(f.Type, seen, visit)
		}
	}
}
