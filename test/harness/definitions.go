package harness

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// HTTPRouteDefinition returns the definition of HTTPRoutes that the Gateway API has.
func HTTPRouteDefinition(t testing.TB) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	return GatewayDefinition(t, "httproutes")
}

// GatewayDefinition returns a definition of the Gateway API, by the plural name of the kind.
func GatewayDefinition(t testing.TB, plural string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	cmd := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/gateway-api")
	cmd.Dir = Root()
	folder, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(folder)), "config/crd/standard/gateway.networking.k8s.io_"+plural+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	definition := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal(data, definition); err != nil {
		t.Fatal(err)
	}
	definition.Status = apiextensionsv1.CustomResourceDefinitionStatus{}
	return definition
}

// PodMonitorDefinition returns a definition of PodMonitors that lets any fields in. The selector is one unit, as it is in that of the
// Prometheus Operator.
func PodMonitorDefinition() *apiextensionsv1.CustomResourceDefinition {
	anything := apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: ptr.To(true)}
	spec, selector := anything, anything
	selector.XMapType = ptr.To("atomic")
	spec.Properties = map[string]apiextensionsv1.JSONSchemaProps{"selector": selector}
	return &apiextensionsv1.CustomResourceDefinition{
		TypeMeta:   metav1.TypeMeta{APIVersion: apiextensionsv1.SchemeGroupVersion.String(), Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: "podmonitors.monitoring.coreos.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: monitoringv1.SchemeGroupVersion.Group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "podmonitors", Singular: "podmonitor", Kind: "PodMonitor", ListKind: "PodMonitorList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": spec, "status": anything},
				}},
			}},
		},
	}
}

// Define applies a definition by server-side apply, as it may be too large for kubectl's annotation.
func (p *Plane) Define(t testing.TB, definition *apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	data, err := json.Marshal(definition)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Client.Patch(t.Context(), definition.DeepCopy(), client.RawPatch(types.ApplyPatchType, data),
		client.FieldOwner("test"), client.ForceOwnership); err != nil {
		t.Fatal(err)
	}
}
