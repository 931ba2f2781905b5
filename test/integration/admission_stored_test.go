package integration

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"huolala.cn/app-operator/test/harness"
)

// olderGroup is the group of the definitions that start without rules. It is another one, as the other tests need theirs.
const olderGroup = "older.huolala.cn"

var errNotYet = errors.New("the new rules are not in force yet")

// newOlderDefinition returns the definition of a kind in the group olderGroup.
func newOlderDefinition(t *testing.T, plural string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(harness.Root(), "config/crd/bases/app.huolala.cn_"+plural+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict([]byte(strings.ReplaceAll(string(data), "app.huolala.cn", olderGroup)), crd); err != nil {
		t.Fatal(err)
	}
	return crd
}

// withoutRules takes all that refuses a value away from a schema; the types stay.
func withoutRules(s *apiextensionsv1.JSONSchemaProps) {
	s.XValidations, s.Pattern, s.Enum, s.Minimum, s.Maximum, s.MinLength, s.MaxLength, s.MaxItems, s.Required = nil, "", nil, nil, nil, nil, nil, nil, nil
	if s.XListType != nil && *s.XListType == "map" {
		s.XListType, s.XListMapKeys = nil, nil
	}
	for name, below := range s.Properties {
		withoutRules(&below)
		s.Properties[name] = below
	}
	if s.Items != nil {
		withoutRules(s.Items.Schema)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		withoutRules(s.AdditionalProperties.Schema)
	}
}

// sendMergePatch sends a merge patch in YAML.
func sendMergePatch(t *testing.T, obj *unstructured.Unstructured, patch string) error {
	t.Helper()
	return plane.Client.Patch(t.Context(), obj, client.RawPatch(types.MergePatchType, marshalJSON(t, fromYAML(t, patch))))
}

// TestStoredBeforeTheRules stores resources that break rules which came later. Each can still be labelled, and changed elsewhere in
// its spec, fixed, and finalised and deleted; what is wrong can be made wrong in no other way.
func TestStoredBeforeTheRules(t *testing.T) {
	t.Parallel()
	ns := plane.Namespace(t)
	long := strings.Repeat("x", 60)
	for plural, cases := range map[string]struct {
		kind  string
		cases []struct{ name, spec, elsewhere, worse, fixed string }
	}{
		"apps": {"App", []struct{ name, spec, elsewhere, worse, fixed string }{
			{"image", `{image: "Nginx:"}`, `{replicas: 2}`, `{image: "Nginx::"}`, `{image: nginx}`},
			{"node-ports", `{image: a, ports: [{port: 1, protocol: TCP, nodePort: 1}, {port: 2, protocol: TCP, nodePort: 1}]}`, `{image: b}`,
				`{ports: [{port: 1, protocol: TCP, nodePort: 2}, {port: 2, protocol: TCP, nodePort: 2}]}`, `{ports: [{port: 1}]}`},
			{"port-name", `{image: a, ports: [{port: 1, name: A}]}`, `{image: b}`, `{ports: [{port: 1, name: B}]}`, `{ports: [{port: 1, name: a}]}`},
			{"target", `{image: a, ports: [{port: 1, targetPort: 0}]}`, `{image: b}`, `{ports: [{port: 1, targetPort: -1}]}`, `{ports: [{port: 1, targetPort: 80}]}`},
			{"step", `{image: a, rollingUpdate: 0}`, `{image: b}`, `{rollingUpdate: 0%}`, `{rollingUpdate: 1}`},
			{"account", `{image: a, serviceAccountName: A_b}`, `{image: b}`, `{serviceAccountName: B_c}`, `{serviceAccountName: null}`},
			{"limits", `{image: a, resources: {requests: {cpu: 2}, limits: {cpu: 1}}}`, `{image: b}`, `{resources: {requests: {cpu: 3}}}`, `{resources: {requests: {cpu: 1}}}`},
			{long + "yyyy", `{image: a}`, `{image: b}`, ``, `{image: c}`},
		}},
		"cloudmanagers": {"CloudManager", []struct{ name, spec, elsewhere, worse, fixed string }{
			{"names", `{front: {deployment: {image: a, name: same}}, identity: {deployment: {image: a, name: same}}, db: {statefulSet: {image: a, name: db, storage: {size: 1Gi}}}}`,
				`{front: {deployment: {image: b}}}`, `{front: {deployment: {name: other}}, identity: {deployment: {name: other}}}`, `{front: {deployment: {name: other}}}`},
			{"database", `{front: {deployment: {image: a}}, identity: {deployment: {image: a}}, db: {statefulSet: {image: a, name: ` + long + `, storage: {size: 1Gi}}}}`,
				`{db: {statefulSet: {image: b}}}`, `{db: {statefulSet: {name: ` + long + `y}}}`, `{db: {statefulSet: {name: db}}}`},
			{long, `{front: {deployment: {image: a}}, identity: {deployment: {image: a, name: identity}}, db: {statefulSet: {image: a, storage: {size: 1Gi}}}}`,
				`{front: {deployment: {image: b}}}`, `{identity: {deployment: {name: null}}}`, `{db: {statefulSet: {name: db}}}`},
		}},
	} {
		t.Run(plural, func(t *testing.T) {
			t.Parallel()
			strict, weak := newOlderDefinition(t, plural), newOlderDefinition(t, plural)
			withoutRules(weak.Spec.Versions[0].Schema.OpenAPIV3Schema)
			plane.Create(t, weak)
			plane.DeleteAfter(t, weak)
			stored := make([]*unstructured.Unstructured, len(cases.cases))
			for i, c := range cases.cases {
				obj := parseApp(t, ns, c.name, c.spec)
				obj.SetAPIVersion(olderGroup + "/v1")
				obj.SetKind(cases.kind)
				obj.SetFinalizers([]string{"example.com/hold"})
				stored[i] = obj
				harness.Eventually(t, func() error { return plane.Client.Create(t.Context(), obj.DeepCopy()) })
			}
			plane.Read(t, weak)
			plane.Change(t, weak, func() { weak.Spec.Versions = strict.Spec.Versions })
			first := stored[0].DeepCopy()
			first.SetName("new")
			harness.Eventually(t, func() error { // The new rules are in force when they refuse what was taken before.
				if err := plane.Client.Create(t.Context(), first.DeepCopy(), client.DryRunAll); !apierrors.IsInvalid(err) {
					return errNotYet
				}
				return nil
			})
			for i, c := range cases.cases {
				t.Run(c.name[:min(len(c.name), 12)], func(t *testing.T) { checkEditsOfStored(t, stored[i], c.elsewhere, c.worse, c.fixed) })
			}
		})
	}
}

// checkEditsOfStored changes a resource that was stored before the rules.
func checkEditsOfStored(t *testing.T, obj *unstructured.Unstructured, elsewhere, worse, fixed string) {
	t.Helper()
	if err := sendMergePatch(t, obj, `{metadata: {labels: {a: b}}}`); err != nil {
		t.Errorf("label it: %v", err)
	}
	if err := sendMergePatch(t, obj, `{spec: `+elsewhere+`}`); err != nil {
		t.Errorf("change something else, %s: %v", elsewhere, err)
	}
	if worse != "" {
		if err := sendMergePatch(t, obj.DeepCopy(), `{spec: `+worse+`}`); !apierrors.IsInvalid(err) {
			t.Errorf("make it wrong otherwise, %s: %v", worse, err)
		}
	}
	if err := sendMergePatch(t, obj.DeepCopy(), `{spec: `+fixed+`}`); err != nil {
		t.Errorf("fix it, %s: %v", fixed, err)
	}
	plane.Delete(t, obj)
	if err := sendMergePatch(t, obj, `{metadata: {finalizers: null}}`); err != nil {
		t.Errorf("take its finalizer away: %v", err)
	}
	plane.Gone(t, obj)
}
