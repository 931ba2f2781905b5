// Package bundle checks what is delivered by way of OLM: the bundle and the template of the catalog.
package bundle

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/operator-framework/api/pkg/manifests"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/api/pkg/validation"
	validator "github.com/operator-framework/api/pkg/validation/interfaces"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/yaml"
)

const root = "../.."

// folder has a folder bundle and its Dockerfile: the tree, or what BUNDLE names, such as one that was made for a release.
func folder() string {
	if dir := os.Getenv("BUNDLE"); dir != "" {
		return dir
	}
	return root
}

// readBundle reads the bundle in folder once: it takes seconds. No test may change it.
var readBundle = sync.OnceValues(func() (*manifests.Bundle, error) {
	return manifests.GetBundleFromDir(filepath.Join(folder(), "bundle"))
})

// load returns the bundle in folder.
func load(t *testing.T) *manifests.Bundle {
	t.Helper()
	b, err := readBundle()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestValidators checks that no validator has an error or a warning. The one for several architectures is left out: it
// pulls the images; and the first of OperatorHub's, which warns of being deprecated.
func TestValidators(t *testing.T) {
	validators := validator.Validators{
		validation.ClusterServiceVersionValidator, validation.CustomResourceDefinitionValidator, validation.BundleValidator,
		validation.OperatorHubV2Validator, validation.StandardCapabilitiesValidator, validation.StandardCategoriesValidator,
		validation.ObjectValidator, validation.OperatorGroupValidator, validation.AlphaDeprecatedAPIsValidator,
		validation.GoodPracticesValidator, validation.CommunityOperatorValidator,
	}
	b, err := manifests.GetBundleFromDir(filepath.Join(folder(), "bundle")) // The validators change it.
	if err != nil {
		t.Fatal(err)
	}
	objects := b.ObjectsToValidate()
	// As operator-sdk does: for which Kubernetes must no API be missing?
	objects = append(objects, map[string]string{"k8s-version": "1.36"})
	results := validators.Validate(objects...)
	if len(results) < len(validators) {
		t.Errorf("%d validators gave %d results", len(validators), len(results))
	}
	for _, result := range results {
		for _, e := range slices.Concat(result.Errors, result.Warnings) {
			t.Errorf("%s: %v", result.Name, e)
		}
	}
}

// TestLabels checks that the image's labels are the annotations of the metadata.
func TestLabels(t *testing.T) {
	var metadata struct {
		Annotations map[string]string `json:"annotations"`
	}
	read(t, filepath.Join(folder(), "bundle/metadata/annotations.yaml"), &metadata)
	labels := map[string]string{}
	file, err := os.ReadFile(filepath.Join(folder(), "bundle.Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(bytes.NewReader(file)); lines.Scan(); {
		if label, ok := strings.CutPrefix(lines.Text(), "LABEL "); ok {
			key, value, _ := strings.Cut(label, "=")
			labels[key] = value
		}
	}
	if diff := cmp.Diff(metadata.Annotations, labels); diff != "" || len(labels) == 0 {
		t.Errorf("bundle/metadata/annotations.yaml and bundle.Dockerfile (-annotations +labels):\n%s", diff)
	}
}

// TestPermissions checks that OLM gives the manager what config/rbac gives it, and no more. Permissions count in the namespaces of the
// OperatorGroup, and OLM promotes them to ClusterRoles where these are all namespaces; clusterPermissions count in the whole cluster in each
// install mode. So only the check of who scrapes the metrics is there, which Kubernetes has no namespaced kind for.
func TestPermissions(t *testing.T) {
	where := map[string]string{"role.yaml": "permissions", "leader_election_role.yaml": "permissions", "metrics_auth_role.yaml": "clusterPermissions"}
	want := map[string][]rbacv1.PolicyRule{}
	for file, list := range where {
		for _, doc := range documents(t, filepath.Join(root, "config/rbac", file)) {
			var role rbacv1.ClusterRole // A Role's rules are the same.
			if err := yaml.UnmarshalStrict(doc, &role); err != nil {
				t.Fatal(err)
			}
			want[list] = append(want[list], role.Rules...)
		}
	}
	csv := load(t).CSV
	strategy := csv.Spec.InstallStrategy.StrategySpec
	for list, permissions := range map[string][]v1alpha1.StrategyDeploymentPermissions{
		"clusterPermissions": strategy.ClusterPermissions, "permissions": strategy.Permissions,
	} {
		var got []rbacv1.PolicyRule
		for _, p := range permissions {
			if account := strategy.DeploymentSpecs[0].Spec.Template.Spec.ServiceAccountName; p.ServiceAccountName != account {
				t.Errorf("permissions of %s, but the manager is %s", p.ServiceAccountName, account)
			}
			got = append(got, p.Rules...)
		}
		if diff := cmp.Diff(sorted(t, want[list]), sorted(t, got)); diff != "" {
			t.Errorf("%s (-config/rbac +bundle):\n%s", list, diff)
		}
	}
	// A binding in the bundle would give rights that no install mode limits.
	for _, obj := range load(t).Objects {
		if strings.HasSuffix(obj.GetKind(), "RoleBinding") {
			t.Errorf("%s %s is next to the permissions", obj.GetKind(), obj.GetName())
		}
	}
}

// TestDefinitions checks that the CRDs are those of config/crd, and that the CSV owns all of them.
func TestDefinitions(t *testing.T) {
	b := load(t)
	want, got := map[string]apiextensionsv1.CustomResourceDefinitionSpec{}, map[string]apiextensionsv1.CustomResourceDefinitionSpec{}
	files, err := filepath.Glob(filepath.Join(root, "config/crd/bases/*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no definitions: %v", err)
	}
	for _, file := range files {
		var crd apiextensionsv1.CustomResourceDefinition
		read(t, file, &crd)
		want[crd.Name] = crd.Spec
	}
	for _, crd := range b.V1CRDs {
		got[crd.Name] = crd.Spec
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("definitions (-config/crd +bundle):\n%s", diff)
	}
	for _, owned := range b.CSV.Spec.CustomResourceDefinitions.Owned {
		delete(want, owned.Name)
	}
	for name := range want {
		t.Errorf("the CSV does not own %s", name)
	}
}

// digest is how an image is named that cannot change.
var digest = regexp.MustCompile(`@sha256:[0-9a-f]{64}$`)

// TestImages checks what the bundle runs. An image has the version's tag; or it is named by its digest, and then all of
// them are in relatedImages, so that a mirror has them.
func TestImages(t *testing.T) {
	b := load(t)
	used, related := map[string]bool{}, map[string]bool{}
	for _, d := range b.CSV.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
		for _, c := range slices.Concat(d.Spec.Template.Spec.InitContainers, d.Spec.Template.Spec.Containers) {
			used[c.Image] = true
			for _, env := range c.Env {
				if strings.HasPrefix(env.Name, "RELATED_IMAGE_") {
					used[env.Value] = true
				}
			}
		}
	}
	used[b.CSV.Annotations["containerImage"]] = true
	for _, r := range b.CSV.Spec.RelatedImages {
		related[r.Image] = true
		if !digest.MatchString(r.Image) {
			t.Errorf("relatedImages has %s, which is not named by its digest", r.Image)
		}
	}
	pinned := len(related) > 0
	for image := range used {
		if !pinned && !strings.HasSuffix(image, ":v"+b.CSV.Spec.Version.String()) {
			t.Errorf("image %s: want the tag v%s", image, b.CSV.Spec.Version)
		}
	}
	if diff := cmp.Diff(used, related); pinned && diff != "" {
		t.Errorf("images (-used +relatedImages):\n%s", diff)
	}
	if says := b.CSV.Annotations["features.operators.openshift.io/disconnected"]; says != fmt.Sprint(pinned) {
		t.Errorf("disconnected is %q; want %t, as that is whether all images are by digest", says, pinned)
	}
}

// TestKinds checks that the bundle has no kind that OLM, or the cluster, may not know.
func TestKinds(t *testing.T) {
	allowed := []string{
		"ClusterServiceVersion", "CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding",
		"Service", "PodDisruptionBudget",
	}
	b := load(t)
	for _, obj := range b.Objects {
		if !slices.Contains(allowed, obj.GetKind()) {
			t.Errorf("%s %s", obj.GetKind(), obj.GetName())
		}
		if obj.GetNamespace() != "" && obj.GetKind() != "ClusterServiceVersion" {
			t.Errorf("%s %s states a namespace", obj.GetKind(), obj.GetName())
		}
		if obj.GetKind() != "PodDisruptionBudget" {
			continue
		}
		for _, field := range []string{"maxUnavailable", "minAvailable"} {
			if value, ok, _ := unstructured.NestedFieldNoCopy(obj.Object, "spec", field); ok {
				if _, number := value.(int64); !number {
					t.Errorf("%s: %s is %v, want a number", obj.GetName(), field, value)
				}
			}
		}
	}
}

// TestDescriptions checks what a console shows of each kind: an example, what comes of it, and a word on each field.
func TestDescriptions(t *testing.T) {
	b := load(t)
	var examples []struct {
		Kind string `json:"kind"`
	}
	if err := json.Unmarshal([]byte(b.CSV.Annotations["alm-examples"]), &examples); err != nil {
		t.Fatal(err)
	}
	for _, owned := range b.CSV.Spec.CustomResourceDefinitions.Owned {
		n := 0
		for _, example := range examples {
			if example.Kind == owned.Kind {
				n++
			}
		}
		if n == 0 {
			t.Errorf("%s has no example", owned.Kind)
		}
		if len(owned.Resources) == 0 {
			t.Errorf("%s: no resources", owned.Kind)
		}
		described := map[string]bool{}
		for _, d := range owned.SpecDescriptors {
			described["spec."+d.Path] = len(d.XDescriptors) > 0 && d.Description != ""
		}
		for _, d := range owned.StatusDescriptors {
			described["status."+d.Path] = len(d.XDescriptors) > 0 && d.Description != ""
		}
		for _, field := range fields(t, b, owned.Name) {
			if !described[field] {
				t.Errorf("%s: %s has no descriptor with a description and an x-descriptor", owned.Kind, field)
			}
		}
	}
}

// fields are the fields of a kind's spec and status.
func fields(t *testing.T, b *manifests.Bundle, definition string) []string {
	t.Helper()
	var found []string
	for _, crd := range b.V1CRDs {
		if crd.Name != definition {
			continue
		}
		for _, part := range []string{"spec", "status"} {
			for name := range crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties[part].Properties {
				found = append(found, part+"."+name)
			}
		}
	}
	if len(found) == 0 {
		t.Errorf("no definition %s", definition)
	}
	slices.Sort(found)
	return found
}

// TestIcon checks that the icon is the one that can be looked at.
func TestIcon(t *testing.T) {
	file, err := os.ReadFile(filepath.Join(root, "docs/images/icon.svg"))
	if err != nil {
		t.Fatal(err)
	}
	for _, icon := range load(t).CSV.Spec.Icon {
		if data, err := base64.StdEncoding.DecodeString(icon.Data); err != nil || !bytes.Equal(data, file) {
			t.Errorf("config/manifests/bases has another icon than docs/images/icon.svg (%v); its base64data is to be\n%s",
				err, base64.StdEncoding.EncodeToString(file))
		}
	}
}

// channel is a channel of the catalog's template.
type channel struct {
	Bundles []struct {
		Image string `json:"image"`
	} `json:"bundles"`
}

// TestCatalog checks the template of the catalog: each channel names versions in ascending order, the bundle in the tree is the
// last candidate, and only candidates are stable.
func TestCatalog(t *testing.T) {
	if os.Getenv("BUNDLE") != "" {
		t.Skip("a bundle alone has no catalog")
	}
	var template struct {
		Candidate channel `json:"candidate"`
		Stable    channel `json:"stable"`
	}
	read(t, filepath.Join(root, "catalog/semver.yaml"), &template)
	candidates, stable := template.Candidate.versions(t), template.Stable.versions(t)
	latest := load(t).CSV.Spec.Version.String()
	if len(candidates) == 0 || candidates[len(candidates)-1] != latest {
		t.Errorf("the candidates are %v, the bundle in the tree is %s", candidates, latest)
	}
	for _, v := range stable {
		if !slices.Contains(candidates, v) {
			t.Errorf("%s is stable and no candidate", v)
		}
	}
}

// TestCatalogIsFollowed checks that config/olm names the tag that a release moves to its catalog: OLM polls it, and the tag of one version
// never brings another one.
func TestCatalogIsFollowed(t *testing.T) {
	cmd := exec.Command("make", "--no-print-directory", "--dry-run", "--old-file=bin/crane", "catalog-follow")
	cmd.Dir = root
	// The variables of a make that runs this test are not those of the command.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "MAKE") || strings.HasPrefix(variable, "MFLAGS=") || strings.HasPrefix(variable, "IMAGE_TAG_BASE=")
	})
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("make catalog-follow: %v: %s", err, out)
	}
	moves := regexp.MustCompile(`NEW='(\S+-catalog):(v\S+)' FOLLOWED='\S+-catalog:(v\S+)' `).FindStringSubmatch(string(out))
	if len(moves) != 4 || moves[2] == moves[3] {
		t.Fatalf("make catalog-follow moves no tag:\n%s", out)
	}
	followed := moves[1] + ":" + moves[3]
	image := regexp.MustCompile(`(?m)^ +(?:image|ref): (\S+)$`)
	for _, file := range []string{"catalogsource.yaml", "clusterextension.yaml"} {
		data, err := os.ReadFile(filepath.Join(root, "config/olm", file))
		if err != nil {
			t.Fatal(err)
		}
		if named := image.FindAllStringSubmatch(string(data), -1); len(named) != 1 || named[0][1] != followed {
			t.Errorf("config/olm/%s names %v, and a release moves %s", file, named, followed)
		}
	}
}

// versions are those of the bundles in c. The test fails if they are not in ascending order.
func (c channel) versions(t *testing.T) []string {
	t.Helper()
	var found []string
	for _, b := range c.Bundles {
		_, tag, _ := strings.Cut(b.Image, "-bundle:v")
		v, err := version.ParseSemantic(tag)
		if err != nil {
			t.Fatalf("the tag of %s is not a version: %v", b.Image, err)
		}
		if n := len(found); n > 0 && !version.MustParseSemantic(found[n-1]).LessThan(v) {
			t.Errorf("%s is after %s", tag, found[n-1])
		}
		found = append(found, tag)
	}
	return found
}

func read(t *testing.T, file string, into any) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(data, into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// documents are the parts of a file of YAML.
func documents(t *testing.T, file string) [][]byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var docs [][]byte
	for _, doc := range regexp.MustCompile(`(?m)^---\n`).Split(string(data), -1) {
		if strings.TrimSpace(doc) != "" {
			docs = append(docs, []byte(doc))
		}
	}
	return docs
}

// sorted returns rules as texts, as their order says nothing.
func sorted(t *testing.T, rules []rbacv1.PolicyRule) []string {
	t.Helper()
	var texts []string
	for _, rule := range rules {
		text, err := json.Marshal(rule)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	slices.Sort(texts)
	return texts
}
