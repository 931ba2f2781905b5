package view

import (
	"os"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	appv1 "huolala.cn/app-operator/api/v1"
)

// specOfApp returns the schema of the spec of an App.
func specOfApp(t *testing.T) apiextensionsv1.JSONSchemaProps {
	t.Helper()
	data, err := os.ReadFile("../../config/crd/bases/" + appv1.GroupVersion.Group + "_apps.yaml")
	if err != nil {
		t.Fatal(err)
	}
	definition := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal(data, definition); err != nil {
		t.Fatal(err)
	}
	return definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
}

// TestImportVolumes imports a Deployment with a volume of each source, and without one, as a file can have it: the App means the same pods, and
// spec.volumes has no field that its schema lacks, which the API server would drop.
func TestImportVolumes(t *testing.T) {
	known := specOfApp(t).Properties["volumes"].Items.Schema.Properties
	sources := reflect.TypeFor[corev1.VolumeSource]()
	patched := 0
	for i := range sources.NumField() + 1 {
		name, volume := "none", corev1.Volume{Name: "v"}
		if i < sources.NumField() {
			name, _, _ = strings.Cut(sources.Field(i).Tag.Get("json"), ",")
			field := reflect.ValueOf(&volume.VolumeSource).Elem().Field(i)
			field.Set(reflect.New(field.Type().Elem()))
		}
		from := &Source{Deployment: foreignDeployment(func(p *corev1.PodSpec) {
			p.Volumes = []corev1.Volume{volume, {Name: "other", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
			p.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v"}, {Name: "other", MountPath: "/other"}}
		})}
		made, err := ImportOf(from)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, v := range made.App.Spec.Volumes {
			if v.Name == "v" && name != "none" {
				if _, has := known[name]; !has {
					t.Errorf("%s: the schema of spec.volumes does not have it", name)
				}
			}
		}
		if made.App.Spec.PodTemplatePatch != nil {
			patched++
		}
		if name == "none" && (len(made.App.Spec.Volumes) != 2 || made.App.Spec.Volumes[0].EmptyDir == nil) {
			t.Errorf("a volume without a source is %+v", made.App.Spec.Volumes)
		}
		if verified, err := VerifyImport(made, from); err == nil && len(verified.Differences) > 0 { // An empty source can be invalid.
			t.Errorf("%s: %s", name, verified.Text())
		}
	}
	if patched == 0 || patched != sources.NumField()-len(known)+1 { // The schema has the name of the volume, too.
		t.Errorf("%d volumes are in the patch; the schema has %d of %d sources", patched, len(known)-1, sources.NumField())
	}
}

// TestImportClaims imports a main container that uses a device of a resource claim, which spec.resources does not have: it is in the patch.
func TestImportClaims(t *testing.T) {
	from := &Source{Deployment: foreignDeployment(func(p *corev1.PodSpec) {
		template := "gpu"
		p.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: &template}}
		p.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}}
	})}
	made, err := ImportOf(from)
	if err != nil {
		t.Fatal(err)
	}
	verified, err := VerifyImport(made, from)
	if err != nil || len(verified.Differences) > 0 {
		t.Errorf("%v: %+v", err, verified)
	}
	if len(made.App.Spec.Resources.Claims) > 0 || !strings.Contains(string(made.App.Spec.PodTemplatePatch.Raw), `"claims":[{"name":"gpu"}]`) {
		t.Errorf("the spec is %+v, the patch %s", made.App.Spec.Resources, made.App.Spec.PodTemplatePatch.Raw)
	}
}
