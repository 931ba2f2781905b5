package cli

import (
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"huolala.cn/app-operator/api/plan"
	appv1 "huolala.cn/app-operator/api/v1"
	"huolala.cn/app-operator/internal/claim"
	"huolala.cn/app-operator/resource"
)

// servedManifest asks for an object of each type around the pods that each cluster has.
const servedManifest = `{"apiVersion":"app.huolala.cn/v1","kind":"App","metadata":{"name":"web","annotations":{ADOPT}},"spec":{"image":"nginx:1",
"ports":[{"name":"http","port":80}],"serviceAccount":{},"networkPolicy":{},"disruptionBudget":{"maxUnavailable":1},
"ingress":{"rules":[{"host":"web.example.com"}]},"resources":{"requests":{"cpu":"1"}},
"autoscaling":{"maxReplicas":5,"metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":80}}}]}}}`

// TestPlanOfCreation puts an object of each type in the way of a resource that is to be created, whose plan the operator answers with names
// alone: the plug-in says what becomes of each object. What it may not read, it does not claim to know.
func TestPlanOfCreation(t *testing.T) {
	manifest := func(adopt bool) string {
		annotation := ""
		if adopt {
			annotation = `"` + appv1.AnnotationAdopt + `":"true"`
		}
		return strings.Replace(servedManifest, "ADOPT", annotation, 1)
	}
	app := &appv1.App{}
	if err := yaml.Unmarshal([]byte(manifest(false)), app); err != nil {
		t.Fatal(err)
	}
	app.Namespace = namespaceOfTests
	w, errs := resource.App(app, resource.BuildOptions{Inputs: resource.BuildInputs{Rendering: resource.RenderingLatest}})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	objects := w.Objects()
	if len(objects) < 7 {
		t.Fatalf("%d objects", len(objects))
	}
	for _, about := range objects {
		kind := about.GetObjectKind().GroupVersionKind()
		for what, c := range map[string]struct {
			controlled, adopt, forbidden bool
			want                         string
		}{
			"nobody's":          {false, false, false, kind.Kind + " web exists and was not created by this resource"},
			"nobody's, adopted": {false, true, false, kind.Kind + " web: exists and is taken over"},
			"controlled":        {true, false, false, kind.Kind + " web exists and is owned by Rollout other"},
			"controlled, adopt": {true, true, false, kind.Kind + " web exists and is owned by Rollout other"},
			"unreadable":        {false, false, true, kind.Kind + " web: created, unless others have an object of this name"},
		} {
			live := about.DeepCopyObject().(resource.Object) //nolint:forcetypeassert // It is the copy of one.
			live.SetLabels(nil)
			live.SetAnnotations(nil)
			live.SetOwnerReferences(nil)
			if c.controlled {
				live.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "x/v1", Kind: "Rollout", Name: "other", UID: "2", Controller: ptr.To(true)}})
			}
			plural, _ := meta.UnsafeGuessKindToResource(kind)
			f := newFakeServer(t, map[string]runtime.Object{plural.Resource + "/web": live})
			f.answer = func(q *http.Request, _ string) runtime.Object {
				switch {
				case q.Method == http.MethodPost:
					return plannedCreation(t, objects)
				case c.forbidden && strings.HasSuffix(q.URL.Path, "/"+plural.Resource+"/web"):
					return status(apierrors.NewForbidden(schema.GroupResource{Resource: plural.Resource}, "web", nil))
				}
				return nil
			}
			code, out, said := f.run(t, "plan", "-f", manifestFile(t, manifest(c.adopt)))
			auxiliary := kind.Kind != "Deployment" && kind.Kind != "Service"
			if wantCode := map[bool]int{true: 2, false: 1}[!auxiliary && strings.Contains(c.want, " web exists")]; code != wantCode {
				t.Errorf("%s, %s: exit status %d, want %d", kind.Kind, what, code, wantCode)
			}
			if !strings.Contains(out, c.want) {
				t.Errorf("%s, %s: no %q\n%s%s", kind.Kind, what, c.want, out, said)
			}
		}
	}
}

// plannedCreation is the operator's answer to the dry run of a creation: the names of the objects.
func plannedCreation(t *testing.T, objects []resource.Object) *metav1.Status {
	t.Helper()
	p := &plan.Plan{Created: true}
	for _, obj := range objects {
		p.Objects = append(p.Objects, plan.Object{Kind: obj.GetObjectKind().GroupVersionKind().Kind, Name: obj.GetName(), Action: plan.Created, Unseen: true})
	}
	return answeredPlan(t, p)
}

// TestTemplatesStop looks for an object among several pages and kinds: once it is found, no further list is requested.
func TestTemplatesStop(t *testing.T) {
	for name, c := range map[string]struct {
		wanted string
		lists  []string
	}{
		"on the first page":   {"Deployment 1", []string{"deployments"}},
		"on the second page":  {"Deployment 2", []string{"deployments", "deployments"}},
		"of the next kind":    {"StatefulSet 1", []string{"deployments", "deployments", "statefulsets"}},
		"that does not exist": {"none", []string{"deployments", "deployments", "statefulsets", "daemonsets", "cronjobs", "jobs"}},
	} {
		var lists, seen []string
		f := newFakeServer(t, nil)
		f.answer = func(q *http.Request, _ string) runtime.Object {
			kind := path.Base(q.URL.Path)
			lists = append(lists, kind)
			switch {
			case kind == "deployments" && q.URL.Query().Get("continue") == "":
				return &appsv1.DeploymentList{ListMeta: metav1.ListMeta{Continue: "more"}, Items: []appsv1.Deployment{{ObjectMeta: objectMeta("1")}}}
			case kind == "deployments":
				return &appsv1.DeploymentList{Items: []appsv1.Deployment{{ObjectMeta: objectMeta("2")}, {ObjectMeta: objectMeta("3")}}}
			case kind == "statefulsets":
				return &appsv1.StatefulSetList{Items: []appsv1.StatefulSet{{ObjectMeta: objectMeta("1")}}}
			}
			return nil
		}
		kube, err := kubernetes.NewForConfig(&rest.Config{Host: f.url})
		if err != nil {
			t.Fatal(err)
		}
		err = userView{&clients{kube: kube, chunk: 1}}.Templates(t.Context(), namespaceOfTests, func(workload claim.Object, _ *corev1.PodTemplateSpec) bool {
			kind := "Deployment"
			if _, ok := workload.(*appsv1.StatefulSet); ok {
				kind = "StatefulSet"
			}
			seen = append(seen, kind+" "+workload.GetName())
			return seen[len(seen)-1] != c.wanted
		})
		if err != nil || !slices.Equal(lists, c.lists) || c.wanted != "none" && seen[len(seen)-1] != c.wanted {
			t.Errorf("%s: %v, lists of %v, visits of %v", name, err, lists, seen)
		}
	}
}
